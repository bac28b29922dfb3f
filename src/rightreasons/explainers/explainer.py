"""An explainer says which features of a sample a number of its prediction comes from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from rightreasons.errors import InvalidSettingError
from rightreasons.explainers.subject import Subject
from rightreasons.target import Target

__all__ = ["Explainer"]


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
