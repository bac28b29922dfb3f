"""Real rulers, ink marks and bubbles of dermoscopy, and how they are put on other images."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["KINDS", "Template", "artefact_filter", "read_templates"]

KINDS = ("bubble", "marking", "ruler")
FRAME = 600  # width, in pixels, of the photographs the templates were cut from
FAINT = 0.06  # a smaller change of the light is none
SMALLEST_AREA = 0.004  # of an image; less would be seen by nobody
LARGEST = 3.0
NUM_BUBBLES = (4, 9)  # at least, and below
UNREADABLE = (
    EOFError,
    KeyError,
    OSError,
    SyntaxError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
Filter = NDArray[np.float32]


@dataclass(frozen=True)
class Template:
    """An artefact as a filter: what it leaves of the light at each pixel and colour.

    Args:
        kind: One of `KINDS`.
        place: ``"circle"`` around the lesion, ``"horizontal"``, ``"vertical"``, or anywhere.
        light: ``(height, width, 3)``; 1 leaves a pixel as it is.
    """

    kind: str
    place: str
    light: Filter


def read_templates(path: Path, *, size: int, zoom: float) -> list[Template]:
    """Read artefacts from a zip as published, resized for images of ``size`` pixels a side.

    Each is either a pair of images, with and without it, whose quotient it is, or an image of ink
    on white.

    Args:
        path: ``skin_artefacts.zip``, with ``meta.json`` and a folder of PNG files for each source.
        size: Of the images they will be put on, which stand for 600 pixels of the photographs.
        zoom: How much larger than in life.

    Raises:
        DatasetNotFoundError: It is not there.
        DatasetCorruptError: It cannot be read.
    """
    if not path.is_file():
        raise DatasetNotFoundError(
            f"Expected artefacts in {path}, but there is none. Zip the folder `data/artefacts` of "
            "F. Katsch's artefact_insertion, with its meta.json, under this name."
        )
    factor = size * zoom / FRAME
    try:
        with zipfile.ZipFile(path) as archive:
            root = next(name for name in archive.namelist() if name.endswith("meta.json"))
            prefix = root.removesuffix("meta.json")
            described = json.loads(archive.read(root))["artefacts"]
            found = [
                Template(one["class"], one.get("subclass", ""), _resized(light, factor))
                for one in described
                for light in _filters(archive, f"{prefix}{one['artefact_folder']}/")
            ]
    except (*UNREADABLE, StopIteration) as error:
        raise DatasetCorruptError(
            f"Expected {path} to hold meta.json and images of artefacts, but it is truncated or "
            f"damaged ({error!r}). Copy it anew."
        ) from error
    return [_turned(template) for template in found if _changed(template.light).any()]


def artefact_filter(
    templates: Sequence[Template], *, size: int, stream: np.random.Generator
) -> Filter:
    """Draw one artefact, several bubbles being one, as a filter ``(size, size, 3)``.

    What it changes is to be masked: elsewhere it is exactly 1.
    """
    kinds = sorted({template.kind for template in templates})
    kind = kinds[stream.integers(len(kinds))]
    own = [template for template in templates if template.kind == kind]
    canvas = np.ones((size, size, 3), dtype=np.float32)
    least = int(stream.integers(*NUM_BUBBLES)) if kind == "bubble" else 1
    while least > 0 or _changed(canvas).mean() < SMALLEST_AREA:
        _put(canvas, own[stream.integers(len(own))], stream)
        least -= 1
    canvas[~_changed(canvas)] = 1
    return canvas


def _changed(light: Filter) -> NDArray[np.bool_]:
    changed: NDArray[np.bool_] = np.abs(light - 1).max(axis=2) > FAINT
    return changed


def _filters(archive: zipfile.ZipFile, folder: str) -> list[Filter]:
    names = [name for name in archive.namelist() if name.startswith(folder)]
    filters = []
    for name in sorted(name for name in names if name.endswith(".png")):
        if "without" in name:
            continue
        light = _pixels(archive, name) + 8  # in the dark a quotient is noise
        clean = name.replace("with", "without") if "with" in name else None
        filters.append(light / (_pixels(archive, clean) + 8 if clean else np.float32(263)))
    return [np.clip(light, 0, LARGEST) for light in filters]


def _pixels(archive: zipfile.ZipFile, name: str) -> Filter:
    with Image.open(io.BytesIO(archive.read(name))) as image:
        return np.asarray(image.convert("RGB"), dtype=np.float32)


def _resized(light: Filter, factor: float) -> Filter:
    height, width = (max(1, round(factor * side)) for side in light.shape[:2])
    planes = torch.from_numpy(light).permute(2, 0, 1)[None]
    small = functional.interpolate(planes, size=(height, width), mode="bilinear", antialias=True)
    resized: Filter = small[0].permute(1, 2, 0).numpy()
    return resized


def _turned(template: Template) -> Template:
    if template.kind == "ruler" and template.place == "vertical":  # all are stored lying
        upright = np.ascontiguousarray(np.rot90(template.light))
        return Template(template.kind, template.place, upright)
    return template


def _put(canvas: Filter, template: Template, stream: np.random.Generator) -> None:
    """Multiply a template into the canvas; one that is larger is cut at a random place."""
    size = len(canvas)
    light = template.light
    for axis in (0, 1):
        room = light.shape[axis] - size
        if room > 0:
            start = int(stream.integers(room + 1))
            light = np.take(light, range(start, start + size), axis=axis)
    height, width = light.shape[:2]
    top, left = (int(stream.integers(size - side + 1)) for side in (height, width))
    if template.place == "circle":
        top, left = (size - height) // 2, (size - width) // 2
    elif template.place == "vertical":  # near an edge
        left = int(stream.integers(max(1, size // 8)))
        left = left if stream.random() < 0.5 else size - width - left
        left = min(max(left, 0), size - width)
    canvas[top : top + height, left : left + width] *= light
