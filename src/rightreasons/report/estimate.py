"""Estimates: a number with its interval over test samples, and its spread over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Estimate", "clear_best", "clearly_above", "estimate_measure"]

SEEDS_FOR_AN_INTERVAL = 3


@dataclass(frozen=True)
class Estimate:
    """A measure of one method.

    Args:
        value: The mean over seeds.
        low: Lower end of the interval; None if there is no interval.
        high: Its upper end.
        deviation: Standard deviation over seeds; None for a single one.
        num_seeds: How many seeds it is the mean of.
    """

    value: float
    low: float | None = None
    high: float | None = None
    deviation: float | None = None
    num_seeds: int = 1

    @property
    def has_interval(self) -> bool:
        """Whether it has an interval, and so can be compared."""
        return self.low is not None and self.high is not None


def estimate_measure(measured: Sequence[Mapping[str, float]], key: str) -> Estimate | None:
    """Estimate one measure from the seeds that have it.

    The interval is the widest cover of the seeds' own intervals ``key/low`` to ``key/high``. For a
    measure that has none it is the mean ± 2 standard deviations, from three seeds on.

    Args:
        measured: The metrics of each seed.
        key: Key of the measure.

    Example:
        >>> one = {"accuracy": 0.8, "accuracy/low": 0.7, "accuracy/high": 0.9}
        >>> two = {"accuracy": 0.6, "accuracy/low": 0.5, "accuracy/high": 0.7}
        >>> estimate = estimate_measure([one, two], "accuracy")
        >>> round(estimate.value, 3), estimate.low, estimate.high, round(estimate.deviation, 3)
        (0.7, 0.5, 0.9, 0.141)
    """
    rows = [row for row in measured if key in row]
    if not rows:
        return None
    values = [row[key] for row in rows]
    mean = statistics.fmean(values)
    deviation = statistics.stdev(values) if len(values) > 1 else None
    low = high = None
    if all(f"{key}/low" in row and f"{key}/high" in row for row in rows):
        low = min(row[f"{key}/low"] for row in rows)
        high = max(row[f"{key}/high"] for row in rows)
    elif deviation is not None and len(values) >= SEEDS_FOR_AN_INTERVAL:
        low, high = mean - 2 * deviation, mean + 2 * deviation
    return Estimate(mean, low, high, deviation, len(values))


def clearly_above(one: Estimate, other: Estimate) -> bool:
    """Whether both have intervals and the first one's lies above the other's."""
    return one.low is not None and other.high is not None and one.low > other.high


def clear_best(estimates: Sequence[Estimate | None], *, higher_is_better: bool) -> int | None:
    """The index of the best estimate if its interval overlaps with no other, else None.

    There must be at least two estimates, and all must have an interval.
    """
    if len(estimates) < 2:
        return None
    for position, one in enumerate(estimates):
        others = [other for index, other in enumerate(estimates) if index != position]
        if one is not None and all(
            other is not None
            and (clearly_above(one, other) if higher_is_better else clearly_above(other, one))
            for other in others
        ):
            return position
    return None
