"""The task: be right."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe

__all__ = ["CrossEntropy"]


class CrossEntropy(Term):
    r"""The negative log-probability of the label, :math:`-c_y \log p(y \mid x)`.

    Unit: nats. With class weights the objective averages over samples, not over weights, so that a
    sample's loss does not depend on its neighbours in the batch (``torch.nn.CrossEntropyLoss``
    divides by the sum of the batch's weights).

    Args:
        class_weights: One factor for each class; None is 1 for all.
        label_smoothing: How much of the label is spread over all classes, in [0, 1).
    """

    class_weights: Tensor | None

    def __init__(
        self, *, class_weights: Sequence[float] | None = None, label_smoothing: float = 0.0
    ) -> None:
        super().__init__()
        if not 0 <= label_smoothing < 1:
            raise InvalidSettingError(
                f"Expected `label_smoothing` in [0, 1), but got {label_smoothing}."
            )
        weights = None if class_weights is None else torch.as_tensor(class_weights)
        if weights is not None and bool((weights < 0).any()):
            raise InvalidSettingError(
                f"Expected `class_weights` of at least 0, but got {weights.min():g}."
            )
        self.label_smoothing = label_smoothing
        self.register_buffer("class_weights", weights)

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
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
