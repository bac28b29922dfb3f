"""Cross-entropy, and the weight decay that recipes add to it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.checks import check_fraction
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.objective import Term
from rightreasons.probe.probe import Probe

__all__ = ["CrossEntropy", "WeightDecay"]


class CrossEntropy(Term):
    r"""The negative log-probability of the label, :math:`-c_y \log p(y \mid x)`.

    Unit: nats. With class weights the objective averages over samples, not over weights, so that a
    sample's loss does not depend on the rest of its batch. ``torch.nn.CrossEntropyLoss`` divides by
    the sum of the batch's weights.

    Args:
        class_weights: One factor for each class; None is 1 for all.
        label_smoothing: Share of the label that is spread over all classes, in [0, 1).
    """

    is_task = True
    compiles = True
    class_weights: Tensor | None

    def __init__(
        self, *, class_weights: Sequence[float] | None = None, label_smoothing: float = 0.0
    ) -> None:
        super().__init__()
        self.label_smoothing = check_fraction("label_smoothing", label_smoothing, below_one=True)
        weights = None if class_weights is None else _checked_weights(class_weights)
        self.register_buffer("class_weights", weights)

    @override
    def forward(self, probe: Probe) -> Tensor:
        weights = self.class_weights
        if weights is not None and len(weights) != probe.logits.shape[1]:
            raise InvalidSettingError(
                f"Expected {probe.logits.shape[1]} `class_weights`, one for each class, but got "
                f"{len(weights)}."
            )
        return functional.cross_entropy(
            probe.logits,
            probe.batch.y,
            weight=None if weights is None else weights.to(probe.logits),
            label_smoothing=self.label_smoothing,
            reduction="none",
        )


class WeightDecay(Term):
    r"""The squared norm of the parameters, :math:`\lVert \theta \rVert_2^2`, for every sample.

    Unlike an optimizer's own decay it is part of the loss: Adam scales its gradient, and it is
    logged. Its weight is the paper's :math:`\beta`; SGD's ``weight_decay=d`` is
    :math:`\beta = d / 2`.

    Args:
        include_vectors: Include biases and normalisation parameters, as the paper does.

    References:
        ross2017right
    """

    compiles = True

    def __init__(self, *, include_vectors: bool = True) -> None:
        super().__init__()
        self.include_vectors = include_vectors

    @override
    def forward(self, probe: Probe) -> Tensor:
        parameters = [
            parameter
            for parameter in probe.model.parameters()
            if parameter.requires_grad and (self.include_vectors or parameter.ndim > 1)
        ]
        squares = [parameter.square().sum() for parameter in parameters]
        total = torch.stack(squares).sum() if squares else probe.logits.new_zeros(())
        return total.expand(len(probe.batch))


def _checked_weights(class_weights: Sequence[float]) -> Tensor:
    try:
        weights = torch.as_tensor(class_weights, dtype=torch.get_default_dtype())
    except (TypeError, ValueError) as error:
        raise InvalidSettingError(
            f"Expected `class_weights` to be a list of numbers, but got {class_weights!r}."
        ) from error
    if weights.ndim != 1 or not bool((weights >= 0).all()) or not bool(weights.isfinite().all()):
        raise InvalidSettingError(
            "Expected `class_weights` to be finite numbers of at least 0, but got "
            f"{class_weights!r}."
        )
    return weights
