"""Decoy HAM: real rulers, ink and bubbles on photographs of benign skin lesions."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

from rightreasons.core.checks import (
    check_choice,
    check_flag,
    check_fraction,
    check_integer,
    positive_float,
)
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.archives import JpegArchive
from rightreasons.datasets.images.files import UNREADABLE, unpack_masks
from rightreasons.datasets.images.pixels import masked_pixel_splits
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError

__all__ = ["KINDS", "Template", "artefact_filter", "decoy_ham", "read_templates"]

CARD = Card(
    name="decoy_ham",
    description="Skin photographs, benign or malignant, some with a ruler, ink or bubbles on them.",
    source=(
        "HAM10000, P. Tschandl et al. 2018; artefacts by F. Katsch et al. 2022, cut from HAM10000"
    ),
    licence="CC BY-NC 4.0",
    shortcut=(
        "Rulers, ink marks and bubbles: on benign lesions only in training and validation, on "
        "half of all images at test."
    ),
    classes=("benign", "malignant"),
    groups=("benign", "benign, artefact", "malignant", "malignant, artefact"),
)
KINDS = ("bubble", "marking", "ruler")
FRAME = 600  # width, in pixels, of the photographs that the templates were cut from
FAINT = 0.06  # smaller changes of the light do not count
SMALLEST_AREA = 0.004  # fraction of the image that an artefact changes at least
LARGEST = 3.0  # largest factor of a filter
NUM_BUBBLES = (4, 9)  # from, and below
Filter = NDArray[np.float32]
PHOTOGRAPHS, ARTEFACTS = "ham10000_128.npz", "skin_artefacts.zip"
PARTS = ("train", "val", "test")
MALIGNANT = ("akiec", "bcc", "mel")
TEST_SHARE = 0.5
MASKS = ("artefact", "outside_lesion")


def decoy_ham(
    data_dir: str | PathLike[str],
    *,
    size: int = 64,
    mask: str = "artefact",
    share: float = 0.5,
    kinds: tuple[str, ...] | list[str] = KINDS,
    zoom: float = 2.0,
    oracle: bool = False,
    seed: int = 0,
) -> Splits:
    """Skin photographs; real rulers, ink and bubbles lie on benign lesions.

    Dermoscopy of HAM10000 in [0, 1] as a binary task: actinic keratoses, basal cell carcinoma and
    melanoma are malignant (1, about a fifth), the four other classes benign (0). In training and
    validation a ``share`` of the benign images has an artefact and no malignant image has one; at
    test half of both have one. Each artefact has a random kind and a random position. It is a
    filter that removes or adds light as in the photograph it was cut from. The four groups are
    class × artefact; the last, a malignant lesion with an artefact, does not occur in training.

    The parts are those of DermaMNIST: 7,007 to train, 1,003 to choose settings, 2,005 to test.
    They do not keep the photographs of a lesion together. Some photographs already have artefacts;
    neither masks nor groups include these.

    Args:
        data_dir: Folder with ``ham10000_128.npz`` (photographs with outlines of the lesions) and
            ``skin_artefacts.zip``.
        size: Side of the images, at most 128.
        mask: ``"artefact"``: every pixel the artefact changed; zeros without an artefact.
            ``"outside_lesion"``: everything outside the lesion, and the pixels of the lesion that
            the artefact changed.
        share: Fraction of benign training and validation images with an artefact, from 0 to 1.
        kinds: Some of ``"bubble"``, ``"marking"`` and ``"ruler"``, equally often.
        zoom: Magnification of the artefacts. In their real size they nearly vanish in 64 pixels.
        oracle: Whether to put artefacts on a ``share`` of malignant training and validation
            images too, so that they tell nothing. A model trained on such data has no shortcut to
            learn. The test set stays the same.
        seed: Random seed for the choice of images and artefacts.

    Raises:
        DatasetNotFoundError: One of the two files is not there.
        DatasetCorruptError: A file cannot be read.

    References:
        katsch2022comparison, tschandl2018ham
    """
    check_integer("size", size, low=8, high=128)
    check_choice("mask", mask, MASKS)
    check_fraction("share", share)
    positive_float("zoom", zoom)
    check_flag("oracle", oracle)
    random_stream(seed)
    if not kinds or isinstance(kinds, str) or not set(kinds) <= set(KINDS):
        raise InvalidSettingError(f"Expected `kinds` to be some of {KINDS}, but got {kinds!r}.")
    root = Path(data_dir).expanduser()
    if not (root / PHOTOGRAPHS).is_file():
        raise DatasetNotFoundError(
            f"Expected photographs of HAM10000 in {root / PHOTOGRAPHS}, but there is none. Put "
            "the archive of 128 × 128 JPEG images with outlines there."
        )
    templates = read_templates(root / ARTEFACTS, size=size, zoom=zoom)
    templates = [template for template in templates if template.kind in kinds]
    missing = sorted(set(kinds) - {template.kind for template in templates})
    if missing:
        raise DatasetCorruptError(
            f"Expected artefacts of the kinds {', '.join(sorted(kinds))} in {root / ARTEFACTS}, "
            f"but found no {', no '.join(missing)}."
        )
    archive = JpegArchive(
        root / PHOTOGRAPHS, columns=["label", "mask_bits", "split"], extras=["class_names"]
    )
    names = [str(name) for name in archive.extras["class_names"]]
    labels = np.isin(archive.columns["label"], [names.index(name) for name in MALIGNANT])
    parts = {}
    for number, part in enumerate(PARTS):
        indices = np.flatnonzero(archive.columns["split"] == number)
        y = labels[indices].astype(np.int64)
        probabilities = np.where(y == 0, share, share if oracle else 0.0)
        if part == "test":
            probabilities = np.full(len(y), TEST_SHARE)
        stream = random_stream(seed, "decoy_ham", part)
        has_artefact = stream.random(len(y)) < probabilities
        pixels = archive.images(indices, size=size)
        changed = _add_artefacts(pixels, has_artefact, templates, seed=seed, part=part)
        avoided = changed
        if mask == "outside_lesion":
            avoided = changed | ~unpack_masks(archive.columns["mask_bits"][indices], size=size)
        label = torch.from_numpy(y)
        parts[part] = (
            torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous(),
            torch.from_numpy(avoided).unsqueeze(1),
            label,
            2 * label + torch.from_numpy(has_artefact).long(),
        )
    return masked_pixel_splits(parts, CARD)


@dataclass(frozen=True)
class Template:
    """An artefact as a filter: the factor by which it changes each pixel and colour.

    Args:
        kind: One of `KINDS`.
        place: Position: ``"circle"`` (in the middle), ``"vertical"`` (near the left or right
            edge), or any other word for a random position.
        light: Factors ``(height, width, 3)``; 1 does not change a pixel.
    """

    kind: str
    place: str
    light: Filter


def read_templates(path: Path, *, size: int, zoom: float) -> list[Template]:
    """Read the published zip of artefacts, resized for images of ``size`` pixels a side.

    An artefact is either a pair of images, with and without it, of which the quotient is taken,
    or an image of ink on white.

    Args:
        path: ``skin_artefacts.zip``, with ``meta.json`` and a folder of PNG files for each source.
        size: Side of the images that get artefacts; it stands for 600 pixels of the photographs.
        zoom: Magnification of the artefacts.

    Raises:
        DatasetNotFoundError: The file is not there.
        DatasetCorruptError: The file cannot be read.
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
            descriptions = json.loads(archive.read(root))["artefacts"]
            templates = [
                Template(one["class"], one.get("subclass", ""), _resize(light, factor))
                for one in descriptions
                for light in _read_filters(archive, f"{prefix}{one['artefact_folder']}/")
            ]
    except (*UNREADABLE, StopIteration) as error:
        raise DatasetCorruptError(
            f"Expected {path} to hold meta.json and images of artefacts, but it is truncated or "
            f"damaged ({error!r}). Copy it anew."
        ) from error
    return [_turn(template) for template in templates if _changed(template.light).any()]


def artefact_filter(
    templates: Sequence[Template], *, size: int, stream: np.random.Generator
) -> Filter:
    """Draw one artefact (or several bubbles) as a filter ``(size, size, 3)``.

    Pixels that do not change are exactly 1, so that the others can be masked.
    """
    kinds = sorted({template.kind for template in templates})
    kind = kinds[stream.integers(len(kinds))]
    same_kind = [template for template in templates if template.kind == kind]
    canvas = np.ones((size, size, 3), dtype=np.float32)
    least = int(stream.integers(*NUM_BUBBLES)) if kind == "bubble" else 1
    while least > 0 or _changed(canvas).mean() < SMALLEST_AREA:
        _put(canvas, same_kind[stream.integers(len(same_kind))], stream)
        least -= 1
    canvas[~_changed(canvas)] = 1
    return canvas


def _add_artefacts(
    pixels: NDArray[np.uint8],
    has_artefact: NDArray[np.bool_],
    templates: list[Template],
    *,
    seed: int,
    part: str,
) -> NDArray[np.bool_]:
    """Put artefacts on images, in place; return the changed pixels, ``(N, H, W)``.

    Each image has its own random stream, so that its artefact does not depend on other images.
    """
    changed = np.zeros(pixels.shape[:3], dtype=bool)
    for index in np.flatnonzero(has_artefact):
        stream = random_stream(seed, "decoy_ham", part, int(index))
        light = artefact_filter(templates, size=pixels.shape[1], stream=stream)
        changed[index] = (light != 1).any(axis=2)
        pixels[index] = np.clip(np.rint(light * pixels[index]), 0, 255).astype(np.uint8)
    return changed


def _changed(light: Filter) -> NDArray[np.bool_]:
    changed: NDArray[np.bool_] = np.abs(light - 1).max(axis=2) > FAINT
    return changed


def _read_filters(archive: zipfile.ZipFile, folder: str) -> list[Filter]:
    names = [name for name in archive.namelist() if name.startswith(folder)]
    filters = []
    for name in sorted(name for name in names if name.endswith(".png")):
        if "without" in name:
            continue
        light = _read_pixels(archive, name) + 8  # else the quotient of dark pixels is noise
        clean = name.replace("with", "without") if "with" in name else None
        filters.append(light / (_read_pixels(archive, clean) + 8 if clean else np.float32(263)))
    return [np.clip(light, 0, LARGEST) for light in filters]


def _read_pixels(archive: zipfile.ZipFile, name: str) -> Filter:
    with Image.open(io.BytesIO(archive.read(name))) as image:
        return np.asarray(image.convert("RGB"), dtype=np.float32)


def _resize(light: Filter, factor: float) -> Filter:
    height, width = (max(1, round(factor * side)) for side in light.shape[:2])
    planes = torch.from_numpy(light).permute(2, 0, 1)[None]
    small = functional.interpolate(planes, size=(height, width), mode="bilinear", antialias=True)
    resized: Filter = small[0].permute(1, 2, 0).numpy()
    return resized


def _turn(template: Template) -> Template:
    """Turn vertical rulers upright; the files hold all rulers lying."""
    if template.kind == "ruler" and template.place == "vertical":
        upright = np.ascontiguousarray(np.rot90(template.light))
        return Template(template.kind, template.place, upright)
    return template


def _put(canvas: Filter, template: Template, stream: np.random.Generator) -> None:
    """Multiply a template into the canvas; a larger one is cropped at a random position."""
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
