"""Axes: where a value lies between bottom and top, and which values get a tick."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rightreasons.report.wording import THIN_SPACE, quantity

__all__ = ["Scale", "scale_for"]

DECADES_FOR_A_LOGARITHM = 1.5
MOST_TICKS = 4


@dataclass(frozen=True)
class Scale:
    """An axis.

    Args:
        low: Value at the bottom.
        high: Value at the top.
        ticks: Values to be written.
        is_logarithmic: Whether equal distances are equal ratios.
        is_share: Whether ticks are written in per cent.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    is_logarithmic: bool = False
    is_share: bool = False

    def place(self, value: float) -> float:
        """0 at the bottom, 1 at the top; values beyond stay at the edge."""
        low, high = self.low, self.high
        if self.is_logarithmic:
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, low))
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def word(self, value: float) -> str:
        """The value as a tick says it."""
        if self.is_share:
            return f"{100 * value:.0f}{THIN_SPACE}%"
        return quantity(value, is_share=False)


def scale_for(values: Sequence[float], *, is_share: bool) -> Scale:
    """An axis that holds all values.

    Shares get 0 to 100 per cent. Positive values that span decades get a logarithmic axis, all
    others a linear one that starts at 0.

    Example:
        >>> scale_for([0.02, 3.1], is_share=False).ticks
        (0.01, 0.1, 1.0, 10.0)
        >>> scale_for([0.6, 3.1], is_share=False).ticks
        (0.0, 2.0, 4.0)
    """
    if is_share:
        return Scale(0.0, 1.0, (0.0, 0.5, 1.0), is_share=True)
    low, high = min(values), max(values)
    if low > 0 and math.log10(high / low) > DECADES_FOR_A_LOGARITHM:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        every = math.ceil((last - first + 1) / MOST_TICKS)
        ticks = tuple(10.0**power for power in range(first, last + 1, every))
        return Scale(10.0**first, 10.0**last, ticks, is_logarithmic=True)
    low, high = min(low, 0.0), max(high, 0.0)
    step = _round_step((high - low) / (MOST_TICKS - 1) or 1.0)
    first, last = math.floor(low / step), math.ceil(high / step)
    last = max(last, first + 1)
    return Scale(
        first * step, last * step, tuple(number * step for number in range(first, last + 1))
    )


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is at least this."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
