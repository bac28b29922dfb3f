"""Draw the lines of a figure as SVG."""

from collections.abc import Callable, Mapping
from html import escape

from rightreasons.report.chart import scale_for

Points = list[tuple[float, float | None]]
NAMES_A_ROW = 3
Place = Callable[[float, float], tuple[float, float]]


def line_figure(
    title: str,
    ends: tuple[str, str],
    lines: Mapping[str, Points],
    colours: Mapping[str, str],
    *,
    dots: bool = False,
) -> str:
    """Draw lines as SVG. A cross marks where a line ends in no number.

    Args:
        title: Name of the vertical axis.
        ends: Labels of the two ends of the horizontal axis.
        lines: Points of each line by its name, in the order in which they are joined.
        colours: Colour of each line by its name.
        dots: Whether to mark the points.
    """
    width, left, top, right, bottom = 640, 70, 40, 620, 270
    height = bottom + 30 + 20 * -(-len(lines) // NAMES_A_ROW)
    known = [y for points in lines.values() for _, y in points if y is not None]
    scale = scale_for(known, is_share=False)
    first, last = (end(x for points in lines.values() for x, _ in points) for end in (min, max))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - first) / ((last - first) or 1)
        return left + across * (right - left), bottom - scale.place(y) * (bottom - top)

    parts = [f'<text x="{left}" y="22" font-size="14">{escape(title)}</text>']
    for tick in scale.ticks:
        _, y = place(first, tick)
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        word = escape(scale.word(tick))
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{word}</text>')
    for x, anchor, word in ((first, "start", ends[0]), (last, "end", ends[1])):
        across, _ = place(x, scale.low)
        parts.append(
            f'<text x="{across:.1f}" y="{bottom + 18}" text-anchor="{anchor}">{word}</text>'
        )
    for number, (name, points) in enumerate(lines.items()):
        parts += _drawn(points, colours[name], place)
        if dots:
            parts += _dotted(points, colours[name], place)
        row, column = divmod(number, NAMES_A_ROW)
        x, y = left + 180 * column, bottom + 40 + 20 * row
        parts.append(f'<text x="{x}" y="{y}" fill="{colours[name]}">{name}</text>')
    body = "".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f"{body}</svg>\n"
    )


def _drawn(points: Points, colour: str, place: Place) -> list[str]:
    """Draw a path for each run of numbers, and crosses where there is no number."""
    stretches: list[list[tuple[float, float]]] = [[]]
    crosses = []
    height = next((y for _, y in points if y is not None), 0.0)
    for x, y in points:
        if y is None:
            crosses.append(place(x, height))
            stretches.append([])
        else:
            height = y
            stretches[-1].append(place(x, y))
    parts = [
        f'<path d="M{" L".join(f"{x:.1f} {y:.1f}" for x, y in stretch)}" fill="none" '
        f'stroke="{colour}" stroke-width="1.5"/>'
        for stretch in stretches
        if stretch
    ]
    parts += [
        f'<path d="M{x - 4:.1f} {y - 4:.1f} l8 8 m0 -8 l-8 8" stroke="{colour}" stroke-width="2"/>'
        for x, y in crosses
    ]
    return parts


def _dotted(points: Points, colour: str, place: Place) -> list[str]:
    known = [place(x, y) for x, y in points if y is not None]
    return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in known]
