"""Exports of Label Studio as JSON, and the way back: brush strokes, polygons, boxes, ellipses."""

import re
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from rightreasons.core.files import write_json
from rightreasons.core.progress import progress
from rightreasons.datasets.annotations.export import (
    BadExport,
    Drawn,
    Export,
    Shape,
    Value,
    raise_problems,
    read_json_value,
    refuse_shape,
)
from rightreasons.datasets.annotations.raster import (
    Mask,
    Points,
    box_corners,
    ellipse_outline,
    fill_polygon,
    rotate,
)
from rightreasons.datasets.images.files import image_size, read_mask
from rightreasons.datasets.images.manifest import read_manifest
from rightreasons.datasets.images.reader import collect_problems, locate_problems, survey

__all__ = ["decode_brush", "encode_brush", "export_masks", "read_label_studio"]

NO_REGIONS = ("choices", "textarea", "rating", "taxonomy", "number", "pairwise", "datetime")
UPLOAD = re.compile(r"^[0-9a-f]{8}-")
DIGITS = 6  # per cents are rounded: beyond a millionth of a pixel they hold noise
RUN_BITS = (3, 4, 8, 16)
CHANNELS = 4

Draw = Callable[[tuple[int, int]], Mask]


def read_label_studio(path: Path) -> Export:
    """Read the tasks of Label Studio's export "JSON".

    Each annotation of a task is one person's. Cancelled ones and predictions are not read.
    Coordinates are those of the image as the browser shows it. Label Studio turns them back if
    its user turned the image.
    """
    export, root = Export(), read_json_value(path)
    for task in root.members():
        with export.collect():
            _read_task(task, export)
    return export


def _read_task(task: Value, export: Export) -> None:
    if task.find("data") is None:
        raise BadExport(
            f"{task.place}: has no 'data'; export the project as JSON, not as JSON-MIN or CSV"
        )
    image = _image_name(task)
    for prediction in _optional(task, "predictions"):
        del prediction
        export.ignore("prediction")
    annotations = _optional(task, "annotations") or _optional(task, "completions")
    for annotation in annotations:
        if annotation.find("was_cancelled") is not None and annotation["was_cancelled"].content:
            export.ignore("cancelled annotation")
            continue
        shapes, sizes = list[Shape](), dict[tuple[int, int], str]()
        for result in annotation["result"].members():
            with export.collect():
                shape = _read_result(result, export)
                if shape is not None:
                    shapes.append(shape)
                    sizes.setdefault(result.size("original_height", "original_width"), result.place)
        if len(sizes) > 1:
            raise BadExport(f"{annotation.place}: has regions on images of different sizes")
        drawn = Drawn(image, next(iter(sizes), None), tuple(shapes), annotation.place)
        export.drawn.append(drawn)


def _optional(value: Value, key: str) -> list[Value]:
    found = value.find(key)
    return [] if found is None else found.members()


def _image_name(task: Value) -> str:
    """The path of a task's image, from the data's address; uploads lose their eight digits."""
    data = task["data"]
    keys = [key for key, content in data.mapping().items() if isinstance(content, str)]
    preferred = [key for key in ("image", "img", "url") if key in keys] or keys
    if not preferred:
        raise BadExport(f"{data.place}: names no image")
    try:
        address = urlsplit(data[preferred[0]].text())
        local = parse_qs(address.query).get("d")
        path = Path(unquote(local[0] if local else address.path))
    except ValueError as error:
        words = str(error) if isinstance(error, BadExport) else f"{data.place}: {error}"
        raise BadExport(words) from error
    if not path.name:
        raise BadExport(f"{data.place}: names no image")
    return str(path.with_name(UPLOAD.sub("", path.name))) if "upload" in path.parts else str(path)


def _read_result(result: Value, export: Export) -> Shape | None:
    kind = result["type"].text()
    if kind in NO_REGIONS or kind == "relation":
        export.ignore(kind)
        return None
    value = result["value"]
    named = value.find(kind) if kind.endswith("labels") else None
    labels = tuple(one.text() for one in named.members()) if named is not None else ()
    return Shape(labels, kind, result.place, _read_region(result, value, kind))


def _read_region(result: Value, value: Value, kind: str) -> Draw:
    """How a region is drawn, by the numbers that it has."""
    if value.find("rle") is not None:
        return _read_brush(result, value)
    if value.find("points") is not None:
        closed = value.find("closed")
        if closed is not None and closed.content is False:
            return refuse_shape("polygon", "which is not closed; close it in Label Studio")
        points = value["points"].points()
        return lambda size: fill_polygon(_scale(points, size), size)
    turned = value.find("rotation")
    degrees = 0.0 if turned is None else turned.number()
    if value.find("radiusX") is not None:
        x, y, across, down = (value[key].number() for key in ("x", "y", "radiusX", "radiusY"))

        def draw_ellipse(size: tuple[int, int]) -> Mask:
            (centre, radii) = _scale(np.array([[x, y], [across, down]]), size)
            outline = ellipse_outline(tuple(centre), tuple(radii))
            return fill_polygon(rotate(outline, degrees, tuple(centre)), size)

        return draw_ellipse
    if value.find("width") is not None:
        x, y, width, height = (value[key].number() for key in ("x", "y", "width", "height"))

        def draw_box(size: tuple[int, int]) -> Mask:
            (corner, sides) = _scale(np.array([[x, y], [width, height]]), size)
            return fill_polygon(rotate(box_corners(*corner, *sides), degrees, tuple(corner)), size)

        return draw_box
    return refuse_shape(kind, "which has no area; mark the region with a brush or a polygon")


def _scale(points: Points, size: tuple[int, int]) -> Points:
    """Pixels from per cents of width and height."""
    scaled: Points = np.round(points * (size[1], size[0]) / 100, DIGITS)
    return scaled


def _read_brush(result: Value, value: Value) -> Draw:
    turned = result.find("image_rotation")
    if turned is not None and turned.number() % 360:
        return refuse_shape("brush", "drawn on a turned image; turn it back and save it again")
    stated = value.find("format")
    if stated is not None and stated.content != "rle":
        return refuse_shape("brush", f"with the format {stated.content!r}, expected 'rle'")
    numbers = [one.integer() for one in value["rle"].members()]
    if max(numbers, default=0) > 255:
        raise BadExport(f"{value.place}.rle: has the number {max(numbers)}, expected bytes")
    return lambda size: decode_brush(bytes(numbers), size)


def decode_brush(content: bytes, size: tuple[int, int]) -> Mask:
    """Decode brush strokes: a run is one bit, the bits of its length, a length, and its values.

    Args:
        content: The bytes of the export.
        size: Height and width.

    Returns:
        The mask: where the fourth channel is not 0.
    """
    bits = _Bits(content)
    num, word, lengths = (
        bits.read(32),
        bits.read(5) + 1,
        [bits.read(4) + 1 for _ in range(CHANNELS)],
    )
    if num != size[0] * size[1] * CHANNELS:
        raise ValueError(f"has {num} values, but {size[1]}x{size[0]} pixels have four each")
    values = np.zeros(num, dtype=np.uint8)
    start = 0
    while start < num:
        repeated = bits.read(1)
        stop = start + 1 + bits.read(lengths[bits.read(2)])
        if stop > num:
            raise ValueError(f"has a run up to value {stop} of {num}")
        values[start:stop] = bits.read(word) if repeated else bits.read_many(word, stop - start)
        start = stop
    return values.reshape(*size, CHANNELS)[..., 3] > 0


class _Bits:
    """Numbers of any number of bits, one after another."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def read(self, size: int) -> int:
        stop = self.at + size
        if stop > 8 * len(self.content):
            raise ValueError(f"ends after {len(self.content)} bytes, in the middle of a run")
        number = int.from_bytes(self.content[self.at // 8 : -(-stop // 8)], "big")
        self.at = stop
        return (number >> (-stop % 8)) & ((1 << size) - 1)

    def read_many(self, size: int, count: int) -> NDArray[np.uint8]:
        stop = self.at + size * count
        if stop > 8 * len(self.content):
            raise ValueError(f"ends after {len(self.content)} bytes, in the middle of a run")
        packed = np.frombuffer(self.content[self.at // 8 : -(-stop // 8)], dtype=np.uint8)
        bits = np.unpackbits(packed)[self.at % 8 :][: size * count].reshape(count, size)
        self.at = stop
        marked: NDArray[np.uint8] = (bits != 0).any(axis=1).astype(np.uint8)
        return marked


def encode_brush(mask: Mask) -> list[int]:
    """Encode a mask as Label Studio's brush strokes; `decode_brush` gives it back.

    Example:
        >>> mask = np.array([[True, False, True]])
        >>> bool((decode_brush(bytes(encode_brush(mask)), (1, 3)) == mask).all())
        True
    """
    flat = np.repeat(np.ascontiguousarray(mask).ravel(), CHANNELS)
    text = [f"{len(flat):032b}{7:05b}", *(f"{bits - 1:04b}" for bits in RUN_BITS)]
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    starts = np.concatenate([[0], edges])
    for start, stop in zip(starts.tolist(), [*edges.tolist(), len(flat)], strict=True):
        for length in _pieces(stop - start):
            which = next(n for n, bits in enumerate(RUN_BITS) if length <= 1 << bits)
            text.append(f"1{which:02b}{length - 1:0{RUN_BITS[which]}b}{255 * flat[start]:08b}")
    joined = "".join(text)
    joined += "0" * (-len(joined) % 8)
    return list(int(joined, 2).to_bytes(len(joined) // 8, "big"))


def _pieces(length: int) -> Iterator[int]:
    longest = 1 << RUN_BITS[-1]
    for start in range(0, length, longest):
        yield min(longest, length - start)


def _make_tasks(
    images: Iterable[tuple[str, Mask | None]], *, label: str, prefix: str
) -> list[dict[str, Any]]:
    """Make tasks of Label Studio with masks as brush strokes.

    Args:
        images: The name of each image and its mask; None if it has none.
        label: Label of the strokes.
        prefix: What stands before a name in the image's address.
    """
    tasks = []
    for name, mask in images:
        task: dict[str, Any] = {"data": {"image": f"{prefix}{name}"}}
        if mask is not None:
            value = {"format": "rle", "rle": encode_brush(mask), "brushlabels": [label]}
            result = {
                "type": "brushlabels",
                "from_name": "brush",
                "to_name": "image",
                "original_width": mask.shape[1],
                "original_height": mask.shape[0],
                "image_rotation": 0,
                "value": value,
            }
            task["annotations"] = [{"result": [result] if mask.any() else []}]
        tasks.append(task)
    return tasks


def export_masks(
    data: str | PathLike[str], out: str | PathLike[str], *, label: str = "mask", prefix: str = ""
) -> int:
    """Write the masks of a data folder as tasks of Label Studio; give their number.

    Args:
        data: A folder with a table, as `folder` reads it.
        out: The JSON file to write.
        label: Label of the brush strokes.
        prefix: What stands before a file's name in the address of the image, such as
            ``/data/local-files/?d=``.
    """
    manifest, problems = read_manifest(Path(data).expanduser())
    entries, _, file_problems = survey(manifest, (1, 1), workers=0)
    masks: list[tuple[str, Mask | None]] = []
    with progress("reading masks", total=len(entries)) as advance:
        for entry in entries:
            mask = None
            if entry.mask:
                with collect_problems(file_problems), locate_problems(entry, entry.mask):
                    path, size = manifest.root / entry.mask, image_size(manifest.root / entry.file)
                    mask = read_mask(path, size=size, turn=entry.turn)[0].numpy() > 0.5
            masks.append((entry.file, mask))
            advance(1)
    raise_problems(problems + file_problems, [Path(data)])
    write_json(Path(out), _make_tasks(masks, label=label, prefix=prefix))
    return len(masks)
