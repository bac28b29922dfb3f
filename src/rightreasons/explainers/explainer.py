"""The base class of explainers, and the map that is made of an attribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal, final

import torch
from torch import Tensor, nn

from rightreasons.core.checks import check_choice
from rightreasons.core.memory import rows_within_budget
from rightreasons.core.model_modes import hold_model, innermost
from rightreasons.errors import InvalidSettingError
from rightreasons.explainers.subject import Subject
from rightreasons.types import Target

__all__ = ["Explainer", "postprocessed"]


class Explainer(ABC):
    """An attribution: settings go to the constructor, data to the call.

    An explainer attributes a number of the prediction to the features of a sample. A new explainer
    implements `attribution` and is named in `EXPLAINERS`.

    The model is explained as at test time whatever its mode: BatchNorm statistics are used and not
    updated, and nothing is dropped. Its mode, its hooks and every ``.grad`` stay as they were. A
    sample's attribution does not depend on the others in its batch.

    Args:
        target: The number of the prediction that is explained; in the papers the label's logit.
    """

    is_differentiable: ClassVar[bool] = True
    """Whether an attribution can have a graph, which a loss or an attack on it needs."""
    splits_batches: bool = True
    """Whether samples may be explained in parts, as many at a time as memory allows."""

    def __init__(self, *, target: Target | str = Target.LOGIT) -> None:
        self.target = Target(target)

    @final
    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor | None = None,
        *,
        create_graph: bool = False,
        inputs: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Attribute the target at ``(x, y)`` to the features.

        Args:
            model: A model that gives logits ``(N, K)``.
            x: Samples ``(N, *S)``, or integer token ids.
            y: The explained class of each sample, ``(N,)``; None explains the predicted ones.
            create_graph: Whether gradients of the attribution must reach the weights, and ``x`` if
                it requires a gradient. A loss or an attack on the attribution needs this.
            inputs: What else the model takes, such as the ``attention_mask`` of texts.

        Returns:
            ``(N, *S)``; for token ids the shape of their embeddings, ``(N, T, E)``. Explainers that
            work on activations give one map for all channels, ``(N, layers, H, W)``.
        """
        if create_graph and not self.is_differentiable:
            raise InvalidSettingError(
                f"Expected `create_graph=False` for {type(self).__name__}, which is for evaluation "
                "only, but got True. Use InputGradient or another differentiable explainer."
            )
        with hold_model(innermost(model)), torch.set_grad_enabled(create_graph):
            subject = Subject(model, x, y, create_graph=create_graph, inputs=inputs)
            if create_graph:
                return self.attribution(subject)
            splits = self.splits_batches
            most = len(x)
            if splits:
                most = rows_within_budget(model, x, "gradients", ceiling=len(x), inputs=inputs)
            if len(x) <= most:
                return self.attribution(subject).detach()
            rows = [slice(first, first + most) for first in range(0, len(x), most)]
            subjects = (
                Subject(
                    model,
                    x[some],
                    None if y is None else y[some],
                    create_graph=False,
                    inputs={name: one[some] for name, one in (inputs or {}).items()},
                )
                for some in rows
            )
            return torch.cat([self.attribution(subject).detach() for subject in subjects])

    @abstractmethod
    def attribution(self, subject: Subject) -> Tensor:
        """The formula; gradients are recorded only if ``subject.create_graph``."""


def postprocessed(
    attribution: Tensor,
    *,
    sign: Literal["absolute", "positive", "signed"] = "absolute",
    channels: Literal["sum", "keep"] = "sum",
    normalise: Literal["l1", "max"] | None = None,
    channel_axis: int = 1,
) -> Tensor:
    """Turn an attribution into a map, sample by sample; differentiable.

    The alignment paper's robustness compares ``normalise="max"`` maps of absolute values.

    Args:
        attribution: The attribution, ``(N, *S)``.
        sign: Whether to take absolute values, the positive part, or to keep signs.
        channels: Whether to sum over the channels, which leaves an axis of length 1, or to keep
            them. Numeric columns, ``(N, D)``, have no channels and are kept.
        normalise: Whether absolute values sum to 1 (``"l1"``) or have the maximum 1 (``"max"``). A
            map of zeros stays zero.
        channel_axis: The axis of the channels; -1 for embeddings ``(N, T, E)``.

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
