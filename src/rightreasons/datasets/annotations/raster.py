"""The rasteriser of all formats: polygons, ellipses and runs become pixels as in COCO."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Mask",
    "Points",
    "box_corners",
    "decode_counts",
    "ellipse_outline",
    "fill_polygon",
    "fill_runs",
    "rotate",
]

Mask = NDArray[np.bool_]
Points = NDArray[np.float64]

UPSAMPLING = 5  # COCO's outline is drawn on a grid five times as fine
FARTHEST = 4  # how many sides of the image a corner may lie outside
SAGITTA = 0.02  # pixels between an ellipse and the polygon in its place


def fill_polygon(points: Points, size: tuple[int, int]) -> Mask:
    """Fill a polygon; every pixel equals that of ``pycocotools.mask.frPyObjects``.

    The outline is drawn on a grid five times as fine. Where it crosses the middle of a column of
    pixels, the filling begins or ends.

    Args:
        points: Corners ``(n, 2)`` in pixels, x before y; (0, 0) is the corner of the image.
        size: Height and width.

    Raises:
        ValueError: There are fewer than three corners, or one lies far outside the image.

    Example:
        >>> square = np.array([[1.0, 1.0], [3.0, 1.0], [3.0, 3.0], [1.0, 3.0]])
        >>> fill_polygon(square, (4, 4)).astype(int).tolist()
        [[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    """
    if len(points) < 3:
        raise ValueError(f"has {len(points)} corners, and an area needs 3")
    height, width = size
    if not np.all(np.abs(points) <= FARTHEST * max(size) + 1):
        worst = points[np.argmax(np.abs(points).max(axis=1))]
        raise ValueError(
            f"has a corner at {worst.tolist()}, far outside its {width}x{height} image"
        )
    corners = (UPSAMPLING * points + 0.5).astype(np.int64)  # as C does, towards zero
    edges = [
        _draw_edge(start, stop)
        for start, stop in zip(corners, np.roll(corners, -1, axis=0), strict=True)
    ]
    u, v = np.concatenate(edges).T
    steps = np.flatnonzero(u[1:] != u[:-1]) + 1
    left = np.where(u[steps] < u[steps - 1], u[steps], u[steps] - 1)
    middle = (left + 0.5) / UPSAMPLING - 0.5
    inside = (np.floor(middle) == middle) & (middle >= 0) & (middle <= width - 1)
    top = np.minimum(v[steps], v[steps - 1])[inside]
    rows = np.ceil(np.clip((top + 0.5) / UPSAMPLING - 0.5, 0, height)).astype(np.int64)
    crossings = middle[inside].astype(np.int64) * height + rows
    toggles = np.bincount(crossings, minlength=height * width + 1)[: height * width]
    parity = np.cumsum(toggles.astype(np.uint8), dtype=np.uint8) % 2  # may wrap: 256 is even
    return parity.astype(bool).reshape(width, height).T


def _draw_edge(start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.int64]:
    """The points of an edge, one for each step of its longer side; ``(n, 2)``."""
    long, short = (0, 1) if abs(stop[0] - start[0]) >= abs(stop[1] - start[1]) else (1, 0)
    flipped = start[long] > stop[long]
    first, last = (stop, start) if flipped else (start, stop)
    length = int(last[long] - first[long])
    slope = (last[short] - first[short]) / length if length else 0.0
    steps = np.arange(length + 1)
    edge = np.empty((length + 1, 2), dtype=np.int64)
    edge[:, long] = steps + first[long]
    edge[:, short] = (first[short] + slope * steps + 0.5).astype(np.int64)
    return edge[::-1] if flipped else edge


def box_corners(x: float, y: float, width: float, height: float) -> Points:
    """The corners of a box; a negative width or height is a ValueError."""
    if width < 0 or height < 0:
        raise ValueError(f"is a box with the width {width:g} and the height {height:g}")
    right, bottom = x + width, y + height
    return np.array([[x, y], [x, bottom], [right, bottom], [right, y]])


def rotate(points: Points, degrees: float, centre: tuple[float, float]) -> Points:
    """Rotate points clockwise, as seen on a screen."""
    if not degrees:
        return points
    angle = math.radians(degrees)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    turned: Points = (points - centre) @ turn + centre
    return turned


def ellipse_outline(centre: tuple[float, float], radii: tuple[float, float]) -> Points:
    """A polygon in place of an ellipse, at most 0.02 pixels off."""
    largest = max(radii)
    if min(radii) <= 0:
        raise ValueError(f"is an ellipse with the radii {radii[0]:g} and {radii[1]:g}")
    if largest > 1e6:
        raise ValueError(f"is an ellipse with a radius of {largest:g} pixels")
    num = max(16, math.ceil(math.pi / math.acos(max(0.0, 1 - min(1.0, SAGITTA / largest)))))
    angles = np.linspace(0, 2 * math.pi, num, endpoint=False)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1) * radii + centre


def fill_runs(runs: Sequence[int], size: tuple[int, int], *, by_column: bool) -> Mask:
    """Make a mask from the lengths of its runs: 0, then 1, then 0, and so on.

    Args:
        runs: Lengths, whose sum is the number of pixels.
        size: Height and width.
        by_column: Whether runs go down the columns, as in COCO; else along the rows.

    Example:
        >>> fill_runs([1, 2, 1], (2, 2), by_column=True).astype(int).tolist()
        [[0, 1], [1, 0]]
    """
    height, width = size
    lengths = np.asarray(runs, dtype=np.int64)
    total = int(lengths.sum())
    if len(lengths) and lengths.min() < 0:
        raise ValueError(f"has a run of {int(lengths.min())} pixels")
    if total != height * width:
        raise ValueError(f"has runs of {total} pixels together, but {width}x{height} pixels")
    flat = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
    return flat.reshape(width, height).T if by_column else flat.reshape(height, width)


def decode_counts(text: str) -> list[int]:
    """Decode the compressed runs of COCO: five bits a character, differences from the third on.

    Example:
        >>> decode_counts("13l")
        Traceback (most recent call last):
            ...
        ValueError: ends in the middle of a number
        >>> decode_counts("121")
        [1, 2, 1]
    """
    counts: list[int] = []
    value = shift = 0
    for character in text:
        code = ord(character) - 48
        if not 0 <= code < 64 or shift > 60:
            raise ValueError(f"has the character {character!r}, which no compressed mask has")
        value |= (code & 0x1F) << shift
        shift += 5
        if code & 0x20:
            continue
        if code & 0x10:
            value |= -1 << shift
        counts.append(value + counts[-2] if len(counts) > 2 else value)
        value = shift = 0
    if shift:
        raise ValueError("ends in the middle of a number")
    return counts
