"""Charts as SVG: widths in per cent, so that letters keep their size on any screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from rightreasons.report.estimate import Estimate
from rightreasons.report.wording import THIN_SPACE, percent, quantity

__all__ = ["Bar", "Line", "Scale", "bar_chart", "line_chart", "scale_for"]

DECADES_FOR_A_LOGARITHM = 1.5
MOST_TICKS = 4
BAR_HEIGHT = 15
BAR_GAP = 5
BAR_ROOM = 78.0  # per cent of the width; the rest is for the number
LINE_HEIGHT = 150
LINE_LEFT = 17.0
LINE_RIGHT = 98.0
MOST_POINTS = 200


@dataclass(frozen=True)
class Scale:
    """An axis.

    Args:
        low: Value at the bottom.
        high: Value at the top.
        ticks: Values that are written at the axis.
        is_logarithmic: Whether equal distances are equal ratios.
        is_share: Whether ticks are written in per cent.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    is_logarithmic: bool = False
    is_share: bool = False

    def place(self, value: float) -> float:
        """Position of a value: 0 at the bottom, 1 at the top; values beyond stay at the edge."""
        low, high = self.low, self.high
        if self.is_logarithmic:
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, low))
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def word(self, value: float) -> str:
        """The text of a tick."""
        if self.is_share:
            return f"{100 * value:.0f}{THIN_SPACE}%"
        return quantity(value, is_share=False)


def scale_for(values: Sequence[float], *, is_share: bool) -> Scale:
    """Choose an axis that holds all values.

    Fractions get 0 to 100 per cent. Positive values that span decades get a logarithmic axis, all
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


@dataclass(frozen=True)
class Bar:
    """One bar: a fraction with its interval.

    Args:
        label: Name of the method.
        colour: Number of its colour.
        estimate: The fraction, from 0 to 1.
    """

    label: str
    colour: int
    estimate: Estimate


@dataclass(frozen=True)
class Line:
    """One line: values over epochs.

    Args:
        label: Name of the run.
        colour: Number of its colour.
        points: Epoch and value, in order.
    """

    label: str
    colour: int
    points: tuple[tuple[float, float], ...]


def bar_chart(title: str, bars: Sequence[Bar]) -> Markup:
    """Horizontal bars from 0 to 100 per cent, with error bars and their numbers.

    Args:
        title: Title, which screen readers read first.
        bars: The bars, from the top down.
    """
    height = len(bars) * (BAR_HEIGHT + BAR_GAP) + BAR_GAP
    values = ", ".join(f"{bar.label} {percent(bar.estimate.value)}" for bar in bars)
    parts = [_grid_line(f"{BAR_ROOM * tick:g}%", 0, height) for tick in (0, 0.5, 1)]
    for row, bar in enumerate(bars):
        parts += _bar(bar, BAR_GAP + row * (BAR_HEIGHT + BAR_GAP))
    return _svg(f"{title}: {values}", height, parts)


def line_chart(
    title: str, lines: Sequence[Line], *, is_share: bool, axis: str = "epoch {}"
) -> Markup:
    """Lines over epochs, on a scale that is logarithmic if the values span decades.

    Args:
        title: Title, which screen readers read first.
        lines: At least one line, each with at least one point.
        is_share: Whether the values are fractions, drawn from 0 to 100 per cent.
        axis: Text at an end of the axis; its place is that of the number.
    """
    values = [value for line in lines for _, value in line.points]
    epochs = [epoch for line in lines for epoch, _ in line.points]
    scale = scale_for(values, is_share=is_share)
    top, bottom = 8, LINE_HEIGHT - 22
    parts = []
    for tick in scale.ticks:
        y = bottom - scale.place(tick) * (bottom - top)
        parts.append(
            f'<line class="grid" x1="{LINE_LEFT}%" x2="{LINE_RIGHT}%" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick" x="{LINE_LEFT - 2}%" y="{y + 4:.1f}" text-anchor="end">'
            f"{escape(scale.word(tick))}</text>"
        )
    first, last = min(epochs), max(epochs)
    for epoch, x, anchor in ((first, LINE_LEFT, "start"), (last, LINE_RIGHT, "end")):
        if anchor == "start" or last > first:
            parts.append(
                f'<text class="tick" x="{x}%" y="{LINE_HEIGHT - 6}" text-anchor="{anchor}">'
                f"{escape(axis.format(f'{epoch:g}'))}</text>"
            )
    paths = "".join(_path(line, scale, first, last) for line in lines)
    parts.append(
        f'<svg x="{LINE_LEFT}%" y="{top}" width="{LINE_RIGHT - LINE_LEFT}%" '
        f'height="{bottom - top}" viewBox="0 0 100 100" preserveAspectRatio="none" '
        f'overflow="visible">{paths}</svg>'
    )
    ends = ", ".join(f"{line.label} {scale.word(line.points[-1][1])}" for line in lines)
    end = "the end" if axis.startswith("epoch") else axis.format(f"{last:g}")
    return _svg(f"{title} by {axis.split()[0]}; at {end}: {ends}", LINE_HEIGHT, parts)


def _bar(bar: Bar, y: int) -> list[str]:
    estimate, middle = bar.estimate, y + BAR_HEIGHT / 2
    width = BAR_ROOM * min(max(estimate.value, 0.0), 1.0)
    tooltip = escape(f"{bar.label}: {percent(estimate.value)}")
    parts = [
        f'<rect class="fill-{bar.colour}" x="0" y="{y}" width="{width:.2f}%" '
        f'height="{BAR_HEIGHT}" rx="2"><title>{tooltip}</title></rect>'
    ]
    if estimate.low is not None and estimate.high is not None:
        low, high = (BAR_ROOM * min(max(end, 0.0), 1.0) for end in (estimate.low, estimate.high))
        ends = ((low, high, middle, middle), *((x, x, middle - 3, middle + 3) for x in (low, high)))
        parts += [
            f'<line class="whisker" x1="{x1:.2f}%" x2="{x2:.2f}%" y1="{y1}" y2="{y2}"/>'
            for x1, x2, y1, y2 in ends
        ]
    parts.append(
        f'<text class="value" x="100%" y="{middle + 4.5}" text-anchor="end">'
        f"{escape(percent(estimate.value))}</text>"
    )
    return parts


def _path(line: Line, scale: Scale, first: float, last: float) -> str:
    step = math.ceil(len(line.points) / MOST_POINTS)
    kept = [*line.points[:-1:step], line.points[-1]]
    span = last - first or 1.0
    coordinates = [
        f"{100 * (epoch - first) / span:.2f} {100 - 100 * scale.place(value):.2f}"
        for epoch, value in kept
    ]
    # A path of one point is a dot: its round cap is drawn, a polyline's would not be.
    moves = f"M{coordinates[0]}" + "".join(
        f"L{coordinate}" for coordinate in (coordinates[1:] or coordinates)
    )
    return (
        f'<path class="stroke-{line.colour}" d="{moves}"><title>{escape(line.label)}</title></path>'
    )


def _grid_line(x: str, top: float, bottom: float) -> str:
    return f'<line class="grid" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>'


def _svg(description: str, height: int, parts: Sequence[str]) -> Markup:
    body = "".join(parts)
    label = escape(description)
    return Markup(
        f'<svg role="img" aria-label="{label}" width="100%" height="{height}">{body}</svg>'
    )
