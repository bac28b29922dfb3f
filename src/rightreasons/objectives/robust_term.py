"""What the terms that move masked features within a box have in common."""

from __future__ import annotations

from rightreasons.datasets.dataset import Dataset
from rightreasons.inside import Inside
from rightreasons.objectives.objective import Term
from rightreasons.objectives.ramp import Ramp
from rightreasons.setting import checked_factor, checked_range
from rightreasons.types import Interval

__all__ = ["RobustTerm"]


class RobustTerm(Term):
    r"""A term over :math:`\{x' : |x' - x| \le \epsilon m\}`, cut to the valid range.

    Args:
        epsilon: Half the box's width where the mask is 1, in input units; None lets masked
            features take every valid value.
        valid_range: Smallest and largest value of a feature. None takes the data's, if `fit` or
            ``prepare`` saw them, and is no limit otherwise.
        ramp: The share of training over which epsilon grows to its value.
    """

    needs_gradient = "inside"

    def __init__(
        self,
        *,
        epsilon: float | None,
        valid_range: tuple[float, float] | None,
        ramp: float,
    ) -> None:
        super().__init__()
        self.epsilon = None if epsilon is None else checked_factor("epsilon", epsilon)
        self.valid_range = None if valid_range is None else checked_range(valid_range)
        self._range = self.valid_range
        self.ramp = Ramp(ramp)

    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        """See `Term.prepare`."""
        self._range = self.valid_range or data.card.valid_range
        self.ramp.prepare(num_passes)

    def box(self, inside: Inside) -> Interval:
        """Where the masked features may move, at this point of training."""
        factor = self.ramp.advanced()
        if self.epsilon is not None:
            return inside.box(factor * self.epsilon, self._range)
        lower, upper = inside.box(None, self._range)
        if factor == 1.0:
            return Interval(lower, upper)
        values = inside.values
        return Interval(values + factor * (lower - values), values + factor * (upper - values))
