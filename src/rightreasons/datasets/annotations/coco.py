"""Exports in the format of COCO (polygons, boxes, runs), and tables of boxes."""

import math
from pathlib import Path

import numpy as np

from rightreasons.datasets.annotations.export import (
    LARGEST_NUMBER,
    BadExport,
    Drawn,
    Export,
    Shape,
    Value,
    read_json_value,
)
from rightreasons.datasets.annotations.raster import (
    Mask,
    Points,
    box_corners,
    decode_counts,
    fill_polygon,
    fill_runs,
)
from rightreasons.datasets.images.manifest import COLUMNS
from rightreasons.datasets.images.table import read_table
from rightreasons.errors import RightReasonsError

__all__ = ["read_boxes", "read_coco"]

SIDES = ("x", "y", "width", "height")
CORNERS = ("xmin", "ymin", "xmax", "ymax")


def read_coco(path: Path) -> Export:
    """Read the regions of a COCO file. One without a segmentation is its box."""
    export, root = Export(), read_json_value(path)
    names: dict[str, str] = {}
    for category in _listed(root, "categories"):
        with export.collect():
            names[category["id"].name()] = category["name"].text()
    images: dict[str, Drawn] = {}
    shapes: dict[str, list[Shape]] = {}
    for image in root["images"].members():
        with export.collect():
            key = image["id"].name()
            if key in images:
                raise BadExport(f"{image.place}: has the id {key} of {images[key].place}")
            name, size = image["file_name"].text(), image.size("height", "width")
            images[key] = Drawn(name, size, (), image.place)
            shapes[key] = []
    for annotation in _listed(root, "annotations"):
        with export.collect():
            key = annotation["image_id"].name()
            if key not in images:
                raise BadExport(f"{annotation.place}: is of the image {key}, which is not listed")
            shapes[key].append(_read_shape(annotation, names))
    export.drawn = [
        Drawn(one.image, one.size, tuple(shapes[key]), one.place) for key, one in images.items()
    ]
    return export


def _listed(root: Value, key: str) -> list[Value]:
    listed = root.find(key)
    return [] if listed is None else listed.members()


def _read_shape(annotation: Value, names: dict[str, str]) -> Shape:
    category = annotation["category_id"].name()
    if category not in names:
        raise BadExport(f"{annotation.place}: has the category {category}, which is not listed")
    label = (names[category],)
    marked = annotation.find("segmentation")
    if marked is None or marked.content == []:
        corners = _read_box(annotation["bbox"])
        return Shape(label, "box", annotation.place, lambda size: fill_polygon(corners, size))
    if isinstance(marked.content, dict):
        stated, runs = _read_runs(marked)
        return Shape(label, "rle", marked.place, lambda size: _fill(runs, stated, size))
    polygons = [_read_polygon(one) for one in marked.members()]
    return Shape(label, "polygon", marked.place, lambda size: _unite(polygons, size))


def _read_box(box: Value) -> Points:
    numbers = [one.number() for one in box.members()]
    if len(numbers) != 4:
        raise BadExport(f"{box.place}: has {len(numbers)} numbers, expected x, y, width, height")
    try:
        return box_corners(*numbers)
    except ValueError as error:
        raise BadExport(f"{box.place}: {error}") from error


def _read_polygon(polygon: Value) -> Points:
    numbers = [one.number() for one in polygon.members()]
    if len(numbers) % 2 or len(numbers) < 6:
        raise BadExport(
            f"{polygon.place}: has {len(numbers)} numbers, expected x and y of 3 corners or more"
        )
    return np.array(numbers).reshape(-1, 2)


def _read_runs(marked: Value) -> tuple[tuple[int, int], list[int]]:
    sides = [one.integer(low=1) for one in marked["size"].members()]
    if len(sides) != 2:
        raise BadExport(f"{marked.place}.size: has {len(sides)} numbers, expected height and width")
    counts = marked["counts"]
    if isinstance(counts.content, str):
        try:
            return (sides[0], sides[1]), decode_counts(counts.content)
        except ValueError as error:
            raise BadExport(f"{counts.place}: {error}") from error
    return (sides[0], sides[1]), [one.integer() for one in counts.members()]


def _fill(runs: list[int], stated: tuple[int, int], size: tuple[int, int]) -> Mask:
    if stated != size:
        raise ValueError(f"has {stated[1]}x{stated[0]} pixels, but its image {size[1]}x{size[0]}")
    return fill_runs(runs, size, by_column=True)


def _unite(polygons: list[Points], size: tuple[int, int]) -> Mask:
    mask = np.zeros(size, dtype=bool)
    for polygon in polygons:
        mask |= fill_polygon(polygon, size)
    return mask


def read_boxes(path: Path) -> Export:
    """Read boxes in pixels from a table with a header, csv or parquet."""
    try:
        header, rows = read_table(path)
    except RightReasonsError as error:
        raise BadExport(f"{path.name}: {error}") from error
    file = next((name for name in COLUMNS["file"] if name in header), None)
    numbers = next((names for names in (SIDES, CORNERS) if set(names) <= set(header)), None)
    if file is None or numbers is None:
        raise BadExport(
            f"{path.name}: has the columns {', '.join(header) or 'of nothing'}; expected file, "
            f"label, and {', '.join(SIDES)} or {', '.join(CORNERS)}"
        )
    export, shapes = Export(), dict[str, list[Shape]]()
    for row, fields in rows:
        place = f"{path.name}, row {row}"
        with export.collect():
            if len(fields) != len(header):
                raise BadExport(f"{place}: has {len(fields)} fields, but the header {len(header)}")
            cells = dict(zip(header, (text.strip() for text in fields), strict=True))
            if not cells[file]:
                raise BadExport(f"{place}: names no file")
            marked = shapes.setdefault(cells[file], [])
            if not any(cells[name] for name in numbers):  # an image without a box
                continue
            corners = _read_corners(
                [_number(cells[name], place) for name in numbers], place, numbers
            )
            label = cells.get("label", "")
            marked.append(_shape(corners, (label,) if label else (), place))
    export.drawn = [Drawn(name, None, tuple(marked), path.name) for name, marked in shapes.items()]
    return export


def _shape(corners: Points, labels: tuple[str, ...], place: str) -> Shape:
    return Shape(labels, "box", place, lambda size: fill_polygon(corners, size))


def _read_corners(numbers: list[float], place: str, names: tuple[str, ...]) -> Points:
    x, y, third, fourth = numbers
    try:
        return box_corners(x, y, *((third, fourth) if names is SIDES else (third - x, fourth - y)))
    except ValueError as error:
        raise BadExport(f"{place}: {error}") from error


def _number(text: str, place: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not abs(number) <= LARGEST_NUMBER:
        raise BadExport(f"{place}: expected a number, but got {text[:40]!r}")
    return number
