"""The task: be right."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe
from rightreasons.setting import checked_share

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

    is_task = True
    class_weights: Tensor | None

    def __init__(
        self, *, class_weights: Sequence[float] | None = None, label_smoothing: float = 0.0
    ) -> None:
        super().__init__()
        self.label_smoothing = checked_share("label_smoothing", label_smoothing)
        weights = None if class_weights is None else _checked_weights(class_weights)
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
