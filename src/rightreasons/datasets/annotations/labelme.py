"""Files of labelme: one JSON file for each image."""

import base64
import binascii
import io
import math
from pathlib import Path

import numpy as np
from PIL import Image

from rightreasons.datasets.annotations.export import (
    BadExport,
    Drawn,
    Export,
    Shape,
    Value,
    read_json_value,
    refuse_shape,
)
from rightreasons.datasets.annotations.raster import (
    Mask,
    Points,
    box_corners,
    ellipse_outline,
    fill_polygon,
)
from rightreasons.datasets.images.files import UNREADABLE

__all__ = ["read_labelme"]


def read_labelme(path: Path) -> Export:
    """Read a file of labelme, or all of a folder and its subfolders."""
    export = Export()
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    if not files:
        raise BadExport(f"{path.name}: has no file of labelme, *.json")
    for file in files:
        with export.collect():
            root = read_json_value(file)
            if path.is_dir():
                root.place = str(file.relative_to(path))
            _read_image(root, export)
    return export


def _read_image(root: Value, export: Export) -> None:
    if root.find("shapes") is None:
        raise BadExport(f"{root.place}: has no 'shapes', so it is no file of labelme")
    name = root["imagePath"].text().replace("\\", "/")
    height, width = root.find("imageHeight"), root.find("imageWidth")
    stated = height is not None and width is not None
    size = root.size("imageHeight", "imageWidth") if stated else None
    shapes = []
    for value in root["shapes"].members():
        with export.collect():
            shapes.append(_read_shape(value))
    parts = Path(root.place).parent / name  # a path that is relative to the JSON file
    export.drawn.append(Drawn(str(parts), size, tuple(shapes), root.place))


def _read_shape(value: Value) -> Shape:
    label = (value["label"].text(),)
    stated = value.find("shape_type")
    kind = "polygon" if stated is None else stated.text()
    points = value["points"].points()

    def shape(outline: Points) -> Shape:
        return Shape(label, kind, value.place, lambda size: fill_polygon(outline, size))

    def expect(*counts: int) -> None:
        if len(points) not in counts:
            expected = " or ".join(map(str, counts))
            raise BadExport(f"{value.place}.points: has {len(points)} points, expected {expected}")

    if kind == "polygon":
        return shape(points)
    if kind == "rectangle":
        expect(2, 4)
        low, high = points.min(axis=0), points.max(axis=0)
        return shape(box_corners(*low, *(high - low)) if len(points) == 2 else points)
    if kind == "circle":
        expect(2)
        (x, y), edge = points
        radius = math.hypot(*(edge - (x, y)))
        if not radius > 0:
            raise BadExport(f"{value.place}: is a circle with the radius 0")
        return shape(ellipse_outline((x, y), (radius, radius)))
    if kind == "mask":
        expect(2)
        part, corner = _decode_png(value["mask"]), points[0]
        return Shape(label, kind, value.place, lambda size: _place(part, corner, size))
    words = "which has no area; draw a polygon, a rectangle or a circle"
    return Shape(label, kind, value.place, refuse_shape(kind, words))


def _decode_png(value: Value) -> Mask:
    try:
        content = base64.b64decode(value.text(), validate=True)
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            return np.asarray(image.convert("L")) > 0
    except (binascii.Error, *UNREADABLE) as error:
        raise BadExport(f"{value.place}: is no mask as PNG in base 64 ({error})") from error


def _place(part: Mask, corner: Points, size: tuple[int, int]) -> Mask:
    """Put a mask at its place in the image."""
    left, top = round(corner[0]), round(corner[1])
    height, width = part.shape
    if left < 0 or top < 0 or left + width > size[1] or top + height > size[0]:
        raise ValueError(f"has {width}x{height} pixels at ({left}, {top}), outside of its image")
    mask = np.zeros(size, dtype=bool)
    mask[top : top + height, left : left + width] = part
    return mask
