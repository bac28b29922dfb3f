"""Decoy HAM: real rulers, ink and bubbles on photographs of harmless skin lesions."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.jpeg_archive import JpegArchive
from rightreasons.datasets.masked_pixels import masked_pixel_splits
from rightreasons.datasets.random_stream import random_stream
from rightreasons.datasets.skin_artefact import KINDS, Template, artefact_filter, read_templates
from rightreasons.datasets.training_part import checked_fraction
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError
from rightreasons.setting import checked_choice, checked_factor, checked_flag, checked_number

__all__ = ["decoy_ham"]

PHOTOGRAPHS, ARTEFACTS = "ham10000_128.npz", "skin_artefacts.zip"
PARTS = ("train", "val", "test")
MALIGNANT = ("akiec", "bcc", "mel")
TEST_SHARE = 0.5
MASKS = ("artefact", "outside_lesion")
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
    validation a ``share`` of the benign images carries an artefact and no malignant one does; at
    test half of either do. Each is drawn anew, of a random kind at a random place, and takes away
    or adds light as it did where it was cut from. The four groups are class × artefact; the last,
    a malignant lesion with an artefact, does not occur in training.

    The parts are those of DermaMNIST: 7,007 to train, 1,003 to choose settings, 2,005 to test.
    They do not keep the photographs of a lesion together. Some photographs have artefacts of
    their own; neither masks nor groups know of these.

    Args:
        data_dir: Where ``ham10000_128.npz`` (photographs with outlines of the lesions) and
            ``skin_artefacts.zip`` lie.
        size: Side of the images, at most 128.
        mask: ``"artefact"``: every pixel the artefact changed, nothing where there is none;
            ``"outside_lesion"``: everything outside the lesion, and what of it the artefact
            changed.
        share: Of benign training and validation images with an artefact, from 0 to 1.
        kinds: Some of ``"bubble"``, ``"marking"`` and ``"ruler"``, equally often.
        zoom: How much larger artefacts are than in life, where they all but vanish in 64 pixels.
        oracle: Put artefacts on a ``share`` of malignant training and validation images too, so
            that they tell nothing: what a model reaches that has no shortcut to take. The test
            set stays the same.
        seed: Of who gets an artefact, and which.

    Raises:
        DatasetNotFoundError: One of the two files is not there.
        DatasetCorruptError: It cannot be read.

    References:
        katsch2022comparison, tschandl2018ham
    """
    checked_number("size", size, low=8, high=128)
    checked_choice("mask", mask, MASKS)
    checked_fraction("share", share)
    checked_factor("zoom", zoom)
    checked_flag("oracle", oracle)
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
        places = np.flatnonzero(archive.columns["split"] == number)
        y = labels[places].astype(np.int64)
        chances = np.where(y == 0, share, share if oracle else 0.0)
        if part == "test":
            chances = np.full(len(y), TEST_SHARE)
        stream = random_stream(seed, "decoy_ham", part)
        has_artefact = stream.random(len(y)) < chances
        pixels = archive.images(places, size=size)
        changed = _with_artefacts(pixels, has_artefact, templates, (seed, part))
        avoided = changed
        if mask == "outside_lesion":
            avoided = changed | ~_lesions(archive.columns["mask_bits"][places], size)
        label = torch.from_numpy(y)
        parts[part] = (
            torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous(),
            torch.from_numpy(avoided).unsqueeze(1),
            label,
            2 * label + torch.from_numpy(has_artefact).long(),
        )
    return masked_pixel_splits(parts, CARD)


def _with_artefacts(
    pixels: NDArray[np.uint8],
    has_artefact: NDArray[np.bool_],
    templates: list[Template],
    purpose: tuple[int, str],
) -> NDArray[np.bool_]:
    """Put artefacts on images, in place; says which pixels were changed, ``(N, H, W)``.

    Each image has a stream of its own, so that it gets the same artefact whoever else has one.
    """
    seed, part = purpose
    changed = np.zeros(pixels.shape[:3], dtype=bool)
    for place in np.flatnonzero(has_artefact):
        stream = random_stream(seed, "decoy_ham", part, int(place))
        light = artefact_filter(templates, size=pixels.shape[1], stream=stream)
        changed[place] = (light != 1).any(axis=2)
        pixels[place] = np.clip(np.rint(light * pixels[place]), 0, 255).astype(np.uint8)
    return changed


def _lesions(bits: NDArray[np.uint8], size: int) -> NDArray[np.bool_]:
    """Where lesions are, by the nearest pixel: ``(N, size, size)``."""
    whole = np.unpackbits(bits, axis=2).astype(bool)
    nearest = ((np.arange(size) + 0.5) * whole.shape[1] / size).astype(np.int64)
    lesions: NDArray[np.bool_] = whole[:, nearest][:, :, nearest]
    return lesions
