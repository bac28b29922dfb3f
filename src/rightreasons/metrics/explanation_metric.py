"""What metrics of explanations share: explainers, and what the data say of inputs."""

from __future__ import annotations

from torch import Tensor

from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.explainers import Explainer
from rightreasons.metrics.attribution_choice import Explainers, named_explainers
from rightreasons.metrics.metric import Metric
from rightreasons.probe import Probe

__all__ = ["ExplanationMetric"]


class ExplanationMetric(Metric):
    """A metric of attributions, for one explainer or several at once.

    Each explainer's value is under its own name, the first one's under the metric's as well. What
    is drawn depends on the seed and the sample, never on the batch.

    Args:
        explainers: Names, objects, or a dictionary of objects; see `named_explainers`. LRP by name
            takes the data's valid range.
    """

    def __init__(self, *, explainers: Explainers) -> None:
        super().__init__()
        self.explainers = explainers
        named_explainers(explainers)  # so that a mistake shows here
        self._chosen: dict[str, Explainer] = {}
        self._valid_range = (0.0, 1.0)

    def prepare(self, data: Dataset) -> None:
        """Take the valid range from the card."""
        self._valid_range = data.card.valid_range
        self._chosen = named_explainers(self.explainers, data.card.valid_range)

    def checked(self, probe: Probe) -> Tensor:
        """The samples' features, or an error if the metric cannot work with them."""
        if not self._chosen or probe.batch.index is None:
            raise InvalidBatchError(
                f"Expected {type(self).__name__}.prepare(data) before the first batch, and batches "
                "with an `index`. evaluate() does both."
            )
        if not probe.features.is_floating_point():
            raise InvalidBatchError(
                f"Expected floating point `x` for {type(self).__name__}, but got token ids."
            )
        return probe.features.detach()

    def headline(self, values: dict[str, float]) -> dict[str, float]:
        """Values by explainer, with the first one's under the metric's own name."""
        return {"": next(iter(values.values())), **values}
