"""Waterbirds: birds of land and water before backgrounds of land and water."""

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
from rightreasons.datasets.images.manifest import read_manifest
from rightreasons.datasets.images.pixels import masked_pixel_splits
from rightreasons.datasets.images.splits import (
    Reading,
    augment_training,
    check_augmentation,
    check_size,
    image_splits,
)
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["waterbirds"]

CARD = Card(
    name="waterbirds",
    description="Photographs of birds, cut out and put before other backgrounds.",
    source=(
        "Waterbirds, S. Sagawa et al. 2020: birds of CUB-200-2011, C. Wah et al. 2011, before "
        "Places, B. Zhou et al. 2017"
    ),
    licence="non-commercial research and education",
    shortcut="In training 95 % of the birds have the background of their kind; at test half have.",
)
TABLE = "metadata.csv"
FOLDERS = (  # of the user, of WILDS, of group DRO
    Path(),
    Path("waterbirds_v1.0"),
    Path("waterbird_complete95_forest2water2"),
    Path("data", "waterbird_complete95_forest2water2"),
)
ARCHIVE = "waterbirds_96.npz"
PARTS = ("train", "val", "test")  # 0, 1, 2
CLASSES = ("landbird", "waterbird")
GROUPS = ("landbird, land", "landbird, water", "waterbird, land", "waterbird, water")
AS_NUMBERED = tuple(f"label {y}, place {place}" for y in (0, 1) for place in (0, 1))


def waterbirds(
    data_dir: str | PathLike[str],
    *,
    size: int = 224,
    seed: int = 0,
    flip: bool = False,
    crop: int = 0,
    in_memory: bool | Literal["auto"] = "auto",
    workers: int | None = None,
    verify: bool = True,
) -> Splits:
    """Birds of land or water; in training the background tells the kind. Four groups.

    The folder as WILDS or group DRO leave it, itself or one level above::

        metadata.csv         img_id,img_filename,y,split,place,place_filename
        001.Black_footed_Albatross/Black_Footed_Albatross_0046_18.jpg

    Labels (1 is a waterbird), backgrounds (1 is water) and the official split (0, 1 and 2 train,
    validate and test) are those of the table; the group is ``2 * y + place``. Images are resized,
    which ignores the aspect ratio, and scaled to [0, 1]. There are no masks.

    If there is no such folder, ``waterbirds_96.npz`` is read: 8,678 images of 96 pixels, made anew
    with the birds, labels and parts of the table and other photographs behind them. It has
    outlines of the birds. The mask is the background, everything outside the outline. The test
    part has a third of the landbirds.

    Differs from the paper: group DRO enlarges images by 8/7 and crops the middle.

    Args:
        data_dir: The folder.
        size: Side in pixels.
        seed: Random seed for the flips and crops.
        flip: Whether to mirror training images at random, as in `Augmented`.
        crop: Largest random shift of training images in pixels, as in `Augmented`.
        in_memory: Whether to decode everything once; ``"auto"``: if it fits into 2 GiB. The
            archive is always decoded once.
        workers: Number of threads or processes that decode; the number of processors, at most 4,
            if None.
        verify: Whether to decode every file once before training reads from disk.

    Raises:
        DatasetNotFoundError: The table is not there.
        DatasetCorruptError: The table is not that of Waterbirds, or files cannot be read; one
            line for each problem.

    References:
        sagawa2020distributionally
    """
    stated_size = check_size(size)
    reading = Reading(workers=workers, in_memory=in_memory, verify=verify)
    check_augmentation(flip, crop, seed)
    above = Path(data_dir).expanduser()
    roots = [above / folder for folder in FOLDERS if (above / folder / TABLE).is_file()]
    if not roots and (above / ARCHIVE).is_file():
        check_integer("size", size)
        splits = _read_archive(above / ARCHIVE, size)
        return augment_training(splits, flip=flip, crop=crop, seed=seed)
    if not roots:
        raise DatasetNotFoundError(
            f"Expected Waterbirds in {above}, but found no {TABLE} there or in "
            f"{', '.join(map(str, FOLDERS[1:]))}, and no {ARCHIVE}. Unpack the archive of WILDS or "
            "of group DRO there."
        )
    manifest, problems = read_manifest(roots[0], table=TABLE)
    if manifest.classes != ("0", "1") or manifest.groups != AS_NUMBERED:
        raise DatasetCorruptError(
            f"Expected {roots[0] / TABLE} to have labels `y` and backgrounds `place` that are 0 or "
            f"1, both of each, but got the labels {', '.join(manifest.classes)} and the groups "
            f"{'; '.join(manifest.groups) or 'none'}. Is it Waterbirds?"
        )
    splits = image_splits(
        replace(manifest, classes=CLASSES, groups=GROUPS),
        problems,
        size=stated_size,
        card=CARD,
        reading=reading,
    )
    return augment_training(splits, flip=flip, crop=crop, seed=seed)


def _read_archive(path: Path, size: int) -> Splits:
    archive = JpegArchive(path, columns=["y", "place", "split", "mask_bits"])
    y, place = (torch.from_numpy(archive.columns[name].astype(np.int64)) for name in ("y", "place"))
    parts = {}
    for number, part in enumerate(PARTS):
        rows = np.flatnonzero(archive.columns["split"] == number)
        bird = unpack_masks(archive.columns["mask_bits"][rows], size=size)
        parts[part] = (
            torch.from_numpy(archive.images(rows, size=size)).permute(0, 3, 1, 2).contiguous(),
            torch.from_numpy(~bird).unsqueeze(1),
            y[rows],
            2 * y[rows] + place[rows],
        )
    source = f"{CARD.source}; other photographs behind the birds, here from {path.name}"
    card = replace(CARD, source=source, classes=CLASSES, groups=GROUPS)
    return masked_pixel_splits(parts, card)
