"""Cats and dogs: the Asirra photographs, without masks."""

from __future__ import annotations

from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Literal

import torch

from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.manifest import Entry, Manifest
from rightreasons.datasets.images.splits import Reading, check_size, image_splits
from rightreasons.datasets.splitting import assign_splits
from rightreasons.errors import DatasetNotFoundError

__all__ = ["cats_vs_dogs"]

CLASSES = ("cat", "dog")
CARD = Card(
    name="cats_vs_dogs",
    description="Photographs of cats and dogs.",
    source="Asirra, J. Elson et al. 2007, as distributed by Microsoft and Kaggle",
    licence="Microsoft Research's terms for Asirra",
    shortcut="none known",
)
SUFFIXES = (".jpeg", ".jpg", ".png")


def cats_vs_dogs(
    data_dir: str | PathLike[str],
    *,
    size: int = 64,
    seed: int = 0,
    test_share: float = 0.2,
    validation_share: float = 0.1,
    in_memory: bool | Literal["auto"] = "auto",
    workers: int | None = None,
) -> Splits:
    """Photographs of cats and dogs; no masks, no groups.

    The folder is that of Microsoft (``PetImages/Cat/0.jpg``, ``PetImages/Dog/0.jpg``), with or
    without ``PetImages`` around it, or Kaggle's (``train/cat.0.jpg``, ``train/dog.0.jpg``). Files
    of no bytes, of which Microsoft's archive has some, are left out.

    Differs from the paper: it does not name its test images; here one permutation splits all
    images, stratified by class.

    Args:
        data_dir: The folder.
        size: Side in pixels, 64 as in the literature on selective classification.
        seed: Random seed for the split.
        test_share: Fraction of all images for the test, above 0.
        validation_share: Fraction of all images for validation; 0 for none.
        in_memory: Whether to decode everything once; ``"auto"``: if it fits into 2 GiB.
        workers: Number of threads or processes that decode; the number of processors, at most 4,
            if None.

    Raises:
        DatasetNotFoundError: The folders are not there.
        DatasetCorruptError: One line for each file that cannot be read.

    References:
        asgari2022masktune
    """
    stated_size = check_size(size)
    reading = Reading(workers=workers, in_memory=in_memory)
    stream = random_stream(seed, "cats_vs_dogs", "split")
    root = Path(data_dir).expanduser()
    files = [_images(root, name) for name in CLASSES]
    if not all(files):
        raise DatasetNotFoundError(
            f"Expected images of cats and dogs in {root}, in PetImages/Cat and PetImages/Dog or as "
            f"train/cat.0.jpg and train/dog.0.jpg, but found {len(files[0])} cats and "
            f"{len(files[1])} dogs. Unpack Microsoft's or Kaggle's archive there."
        )
    label = torch.tensor([number for number, paths in enumerate(files) for _ in paths])
    splits = assign_splits(
        label, test_share=test_share, validation_share=validation_share, stream=stream
    )
    entries = [
        Entry(index + 1, str(path.relative_to(root)), splits[index], int(label[index]), -1, "")
        for index, path in enumerate(chain.from_iterable(files))
    ]
    return image_splits(
        Manifest(root, tuple(entries), CLASSES, (), origin="cats and dogs come"),
        [],
        size=stated_size,
        card=CARD,
        reading=reading,
    )


def _images(root: Path, name: str) -> list[Path]:
    """The image files of a class, from the first folder that has any."""
    patterns = [
        *((folder / name.capitalize(), "*") for folder in (root / "PetImages", root)),
        *((folder, f"{name}.*") for folder in (root / "train", root)),
    ]
    for folder, pattern in patterns:
        paths = [
            path
            for path in sorted(folder.glob(pattern))
            if path.suffix.lower() in SUFFIXES and path.stat().st_size
        ]
        if paths:
            return paths
    return []
