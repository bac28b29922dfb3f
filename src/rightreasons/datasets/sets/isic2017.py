"""ISIC 2017: skin lesions of three kinds with an outline of each (Codella et al. 2018)."""

from __future__ import annotations

import csv
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from rightreasons.core.checks import check_integer
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.archives import JpegArchive
from rightreasons.datasets.images.files import unpack_masks
from rightreasons.datasets.images.manifest import Entry, Manifest
from rightreasons.datasets.images.pixels import masked_pixel_splits
from rightreasons.datasets.images.splits import (
    Reading,
    augment_training,
    check_augmentation,
    check_size,
    image_splits,
)
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["isic2017"]

CLASSES = ("nevus", "melanoma", "seborrheic keratosis")
CARD = Card(
    name="isic2017",
    description="Skin photographs: nevus, melanoma or seborrheic keratosis.",
    source="ISIC 2017 challenge, N. Codella et al. 2018",
    licence="CC-0",
    shortcut="None planted; some images have coloured patches, rulers or ink beside the lesion.",
)
PARTS = {"train": "Training", "val": "Validation", "test": "Test_v2"}
ARCHIVE = "isic2017_128.npz"
COLUMNS = ("image_id", "melanoma", "seborrheic_keratosis")


def isic2017(
    data_dir: str | PathLike[str],
    *,
    size: int = 224,
    flip: bool = False,
    seed: int = 0,
    in_memory: bool | Literal["auto"] = "auto",
    workers: int | None = None,
) -> Splits:
    """Skin lesions of three kinds; the mask is everything outside the lesion.

    The folder, as the challenge publishes it::

        ISIC-2017_Training_Data/ISIC_0000000.jpg
        ISIC-2017_Training_Part1_GroundTruth/ISIC_0000000_segmentation.png    white in the lesion
        ISIC-2017_Training_Part3_GroundTruth.csv    image_id,melanoma,seborrheic_keratosis

    and the same with ``Validation`` and ``Test_v2``: 2,000 images to train, 150 to choose settings
    and 600 to test. Superpixels are not read. The group is the class.

    If there are no such tables, ``isic2017_128.npz`` is read, the same photographs in 128 pixels.
    It has outlines of 2,650 of the 2,750 lesions; the others are not annotated.

    Args:
        data_dir: The folder.
        size: Side in pixels; images are squeezed to squares.
        flip: Whether to mirror training images at random, as in `Augmented`.
        seed: Random seed for the flips.
        in_memory: Whether to decode everything once; ``"auto"``: if it fits into 2 GiB. The
            archive is always decoded once.
        workers: Number of threads or processes that decode; the number of processors, at most 4,
            if None.

    Raises:
        DatasetNotFoundError: The folders or tables are not there.
        DatasetCorruptError: One line for each file that cannot be read.

    References:
        adachi2022learning, codella2018skin
    """
    check_augmentation(flip, 0, seed)
    stated_size = check_size(size)
    reading = Reading(workers=workers, in_memory=in_memory)
    root = Path(data_dir).expanduser()
    table = "ISIC-2017_{}_Part3_GroundTruth.csv"
    tables = {split: root / table.format(part) for split, part in PARTS.items()}
    missing = [path.name for path in tables.values() if not path.is_file()]
    if len(missing) == len(tables) and (root / ARCHIVE).is_file():
        check_integer("size", size)
        splits = _read_archive(root / ARCHIVE, size)
        return augment_training(splits, flip=flip, crop=0, seed=seed)
    if missing:
        raise DatasetNotFoundError(
            f"Expected the data of the ISIC 2017 challenge in {root}, but found no "
            f"{', no '.join(missing)}. Unpack the challenge's archives of images, of Part 1 and "
            "the tables of Part 3 there."
        )
    entries: list[Entry] = []
    for split, path in tables.items():
        part = PARTS[split]
        for name, label in _read_labels(path):
            entries.append(
                Entry(
                    row=len(entries) + 1,
                    file=f"ISIC-2017_{part}_Data/{name}.jpg",
                    split=split,
                    label=label,
                    group=label,
                    mask=f"ISIC-2017_{part}_Part1_GroundTruth/{name}_segmentation.png",
                )
            )
    splits = image_splits(
        Manifest(root, tuple(entries), CLASSES, CLASSES, origin="the ISIC 2017 challenge has them"),
        [],
        size=stated_size,
        mask_polarity="relevant",
        card=CARD,
        reading=reading,
    )
    return augment_training(splits, flip=flip, crop=0, seed=seed)


def _read_labels(path: Path) -> list[tuple[str, int]]:
    """Read names and labels; an image that is neither of the table's two classes is a nevus."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = list(csv.DictReader(lines))
        return [(row[COLUMNS[0]], _label(row)) for row in rows]
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise DatasetCorruptError(
            f"Expected {path} to be a table with the columns {', '.join(COLUMNS)}, zeros and at "
            f"most one 1 in each row, but got: {error!r}."
        ) from error


def _label(row: dict[str, str]) -> int:
    melanoma, keratosis = (float(row[name]) for name in COLUMNS[1:])
    if {melanoma, keratosis} - {0.0, 1.0} or melanoma + keratosis > 1:
        raise ValueError(f"{row[COLUMNS[0]]} has {melanoma:g} and {keratosis:g}")
    return 1 if melanoma else 2 if keratosis else 0


def _read_archive(path: Path, size: int) -> Splits:
    columns = ["melanoma", "seborrheic_keratosis", "official_split", "mask_bits", "has_mask"]
    archive = JpegArchive(path, columns=columns)
    melanoma, keratosis, part_of, bits, outlined = (archive.columns[name] for name in columns)
    y = torch.from_numpy(np.where(melanoma == 1, 1, np.where(keratosis == 1, 2, 0)))
    parts, annotated = {}, {}
    for number, part in enumerate(PARTS):
        rows = np.flatnonzero(part_of == number)
        has_outline = outlined[rows] == 1
        outside = ~unpack_masks(bits[rows], size=size) & has_outline[:, None, None]
        annotated[part] = torch.from_numpy(has_outline)
        parts[part] = (
            torch.from_numpy(archive.images(rows, size=size)).permute(0, 3, 1, 2).contiguous(),
            torch.from_numpy(outside).unsqueeze(1),
            y[rows],
            y[rows],
        )
    source = f"{CARD.source}; here from {path.name}"
    card = replace(CARD, source=source, classes=CLASSES, groups=CLASSES)
    return masked_pixel_splits(parts, card, annotated)
