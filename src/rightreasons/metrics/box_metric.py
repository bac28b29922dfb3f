"""What metrics of a box around the masked features share: the box itself."""

from __future__ import annotations

from typing import ClassVar

from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.inside import Inside
from rightreasons.metrics.metric import Metric
from rightreasons.probe import Need
from rightreasons.setting import checked_factor, checked_number
from rightreasons.target import Target
from rightreasons.types import Interval

__all__ = ["BoxMetric"]


class BoxMetric(Metric):
    r"""A metric over the box :math:`|x' - x| \le \epsilon m`, within the data's valid range.

    What it finds by search depends on the seed and the sample, never on the batch. Bounds are
    those of single precision, rounded to nearest; `certify` rounds outward.

    Args:
        epsilon: Half the box's width, in input units.
        target: What is differentiated.
        num_samples: Points drawn for the search.
        num_steps: Steps that climb from the best of them.
        seed: Of the draws.
    """

    higher_is_better = False
    needs_gradient: ClassVar[Need] = "inside"

    def __init__(
        self, *, epsilon: float, target: Target | str, num_samples: int, num_steps: int, seed: int
    ) -> None:
        super().__init__()
        self.epsilon = checked_factor("epsilon", epsilon)
        self.target = Target(target)
        self.num_samples = checked_number("num_samples", num_samples, low=0)
        self.num_steps = checked_number("num_steps", num_steps, low=0)
        self.seed = checked_number("seed", seed, low=0)
        self._valid_range: tuple[float, float] | None = None

    def prepare(self, data: Dataset) -> None:
        """Take the valid range from the card; refuse data without masks."""
        if not data.has_masks:
            raise InvalidBatchError(
                f"Expected data with masks for {type(self).__name__}, but got none."
            )
        self._valid_range = data.card.valid_range

    def box(self, inside: Inside) -> Interval:
        """Where the masked features may move, ``(N, M)``."""
        if self._valid_range is None:
            raise InvalidBatchError(
                f"Expected {type(self).__name__}.prepare(data) before the first batch, since the "
                "data say which values are valid. evaluate() does it."
            )
        return inside.box(self.epsilon, self._valid_range)
