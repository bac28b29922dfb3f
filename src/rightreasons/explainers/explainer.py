"""An explainer says which features of a sample a number of its prediction comes from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, final

import torch
from torch import Tensor, nn

from rightreasons.core.checks import check_choice
from rightreasons.errors import InvalidSettingError
from rightreasons.explainers.subject import Subject
from rightreasons.types import Target

__all__ = ["Explainer", "postprocessed"]


def postprocessed(
    attribution: Tensor,
    *,
    sign: Literal["absolute", "positive", "signed"] = "absolute",
    channels: Literal["sum", "keep"] = "sum",
    normalise: Literal["l1", "max"] | None = None,
    channel_axis: int = 1,
) -> Tensor:
    """Make a map of an attribution, sample by sample; differentiable.

    The alignment paper's robustness compares ``normalise="max"`` maps of absolute values.

    Args:
        attribution: ``(N, *S)``.
        sign: Take absolute values, the positive part, or leave signs alone.
        channels: Sum over the channels, which leaves an axis of length 1, or keep them. Numeric
            columns, ``(N, D)``, have no channels and are kept.
        normalise: Let absolute values sum to 1 (``"l1"``) or reach 1 (``"max"``); a map of zeros
            stays one.
        channel_axis: Where channels are; -1 for embeddings ``(N, T, E)``.

    Example:
        >>> attribution = torch.tensor([[[[1.0, -2.0]], [[3.0, 2.0]]]])  # two channels
        >>> postprocessed(attribution, normalise="max")
        tensor([[[[1., 1.]]]])
        >>> postprocessed(attribution, sign="signed")
        tensor([[[[4., 0.]]]])
    """
    check_choice("sign", sign, ("absolute", "positive", "signed"))
    check_choice("channels", channels, ("sum", "keep"))
    check_choice("normalise", normalise, (None, "l1", "max"))
    if sign != "signed":
        attribution = attribution.abs() if sign == "absolute" else attribution.clamp(min=0)
    if channels == "sum" and attribution.ndim > 2:
        attribution = attribution.sum(dim=channel_axis, keepdim=True)
    if normalise is None:
        return attribution
    sizes = attribution.abs().flatten(1)
    scale = sizes.sum(dim=1) if normalise == "l1" else sizes.amax(dim=1)
    scale = torch.where(scale == 0, 1, scale)
    return attribution / scale.reshape(-1, *[1] * (attribution.ndim - 1))


class Explainer(ABC):
    """What every attribution promises; settings go to the constructor, data to the call.

    The model is explained as at test time whatever its mode: BatchNorm statistics are used and not
    updated, nothing is dropped. Its mode, its hooks and every ``.grad`` are left as they were, and
    a sample's attribution does not depend on the others in its batch.

    Args:
        target: What number of the prediction is explained; the papers take the label's logit.
    """

    is_differentiable: ClassVar[bool] = True
    """Whether an attribution can have a graph, and so stand in a loss or be attacked."""

    def __init__(self, *, target: Target | str = Target.LOGIT) -> None:
        self.target = Target(target)

    @final
    def __call__(
        self, model: nn.Module, x: Tensor, y: Tensor | None = None, *, create_graph: bool = False
    ) -> Tensor:
        """Attribute the target at ``(x, y)`` to the features.

        Args:
            model: Gives logits ``(N, K)``.
            x: ``(N, *S)``, or integer token ids.
            y: ``(N,)``: the class of each sample that is explained; None is the one the model
                predicts.
            create_graph: Whether the attribution must reach the weights, and ``x`` if it requires
                a gradient: to second order, as a loss or an attack needs it.

        Returns:
            ``(N, *S)``; for token ids the shape of their embeddings, ``(N, T, E)``; one map for all
            channels from those that work on activations, ``(N, layers, H, W)``.
        """
        if create_graph and not self.is_differentiable:
            raise InvalidSettingError(
                f"Expected `create_graph=False` for {type(self).__name__}, which is for evaluation "
                "only, but got True. Use InputGradient or another differentiable explainer."
            )
        with torch.set_grad_enabled(create_graph):
            subject = Subject(model, x, y, create_graph=create_graph)
            attribution = self.attribution(subject)
        return attribution if create_graph else attribution.detach()

    @abstractmethod
    def attribution(self, subject: Subject) -> Tensor:
        """The formula; gradients are recorded only if ``subject.create_graph``."""
