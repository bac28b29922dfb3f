"""Exports of CVAT "for images": an XML file with polygons, boxes, ellipses and masks."""

import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from rightreasons.core.files import JSON_BYTES, Unreadable, check_file, translate_parser_errors
from rightreasons.datasets.annotations.export import (
    LARGEST_NUMBER,
    BadExport,
    Drawn,
    Export,
    Shape,
    refuse_shape,
)
from rightreasons.datasets.annotations.raster import (
    Mask,
    Points,
    box_corners,
    ellipse_outline,
    fill_polygon,
    fill_runs,
    rotate,
)

__all__ = ["read_cvat"]


def read_cvat(path: Path) -> Export:
    """Read the regions of CVAT's format "CVAT for images 1.1"."""
    export, root = Export(), _parse(path)
    if root.tag != "annotations":
        raise BadExport(f"{path.name}: begins with <{root.tag}>, expected <annotations>")
    if root.find("track") is not None:
        raise BadExport(f"{path.name}: has tracks of a video; export it as CVAT for images")
    for number, image in enumerate(root.iter("image")):
        place = f"{path.name}, image {number}"
        with export.collect():
            name = _text(image, "name", place)
            place = f"{place} ({name})"
            size = (_integer(image, "height", place, low=1), _integer(image, "width", place, low=1))
            shapes = []
            for index, element in enumerate(image):
                if element.tag == "tag":
                    export.ignore("tag of a whole image")
                    continue
                with export.collect():
                    shapes.append(_read_shape(element, f"{place}, {element.tag} {index}"))
            export.drawn.append(Drawn(name, size, tuple(shapes), place))
    return export


def _parse(path: Path) -> ElementTree.Element:
    try:
        check_file(path, limit=JSON_BYTES)
        with translate_parser_errors():
            content = path.read_bytes()
            if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
                raise Unreadable("it defines entities, which few bytes fill a memory with")
            return ElementTree.fromstring(content)
    except FileNotFoundError:
        raise BadExport(f"{path.name}: no such file") from None
    except Unreadable as error:
        raise BadExport(f"{path.name}: is no XML ({error})") from error


def _read_shape(element: ElementTree.Element, place: str) -> Shape:
    kind, label = element.tag, (_text(element, "label", place),)
    degrees = _number(element, "rotation", place) if "rotation" in element.attrib else 0.0

    def numbers(*names: str) -> list[float]:
        return [_number(element, name, place) for name in names]

    def shape(outline: Points) -> Shape:
        return Shape(label, kind, place, lambda size: fill_polygon(outline, size))

    try:
        if kind == "polygon":
            return shape(_points(_text(element, "points", place)))
        if kind == "box":
            left, top, right, bottom = numbers("xtl", "ytl", "xbr", "ybr")
            corners = box_corners(left, top, right - left, bottom - top)
            return shape(rotate(corners, degrees, ((left + right) / 2, (top + bottom) / 2)))
        if kind == "ellipse":
            x, y, across, down = numbers("cx", "cy", "rx", "ry")
            return shape(rotate(ellipse_outline((x, y), (across, down)), degrees, (x, y)))
        if kind == "mask":
            runs = [int(run) for run in _text(element, "rle", place).split(",")]
            left, top, width, height = (
                _integer(element, name, place) for name in ("left", "top", "width", "height")
            )
            return Shape(
                label, kind, place, lambda size: _fill(runs, (left, top, width, height), size)
            )
    except ValueError as error:
        words = str(error) if isinstance(error, BadExport) else f"{place}: {error}"
        raise BadExport(words) from error
    words = "which has no area; draw a polygon, a rectangle, an ellipse or a mask"
    return Shape(label, kind, place, refuse_shape(kind, words))


def _fill(runs: list[int], box: tuple[int, int, int, int], size: tuple[int, int]) -> Mask:
    """Fill runs along the rows of a box."""
    left, top, width, height = box
    if left + width > size[1] or top + height > size[0]:
        raise ValueError(f"has {width}x{height} pixels at ({left}, {top}), outside of its image")
    mask = np.zeros(size, dtype=bool)
    mask[top : top + height, left : left + width] = fill_runs(
        runs, (height, width), by_column=False
    )
    return mask


def _points(text: str) -> Points:
    pairs = [pair.split(",") for pair in text.split(";")]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("has points other than x,y;x,y;x,y")
    return np.array([[_finite(x), _finite(y)] for x, y in pairs])


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or abs(number) > LARGEST_NUMBER:
        raise ValueError(f"has the number {text[:40]}")
    return number


def _text(element: ElementTree.Element, name: str, place: str) -> str:
    text = element.get(name)
    if not text:
        raise BadExport(f"{place}: has no {name!r}")
    return text


def _number(element: ElementTree.Element, name: str, place: str) -> float:
    text = _text(element, name, place)
    try:
        return _finite(text)
    except ValueError:
        raise BadExport(f"{place}: expected a number for {name!r}, but got {text[:40]!r}") from None


def _integer(element: ElementTree.Element, name: str, place: str, low: int = 0) -> int:
    number = _number(element, name, place)
    if number != int(number) or number < low:
        raise BadExport(f"{place}: expected {name!r} to be a whole number from {low}, got {number}")
    return int(number)
