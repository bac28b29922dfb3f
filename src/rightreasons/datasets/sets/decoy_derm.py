"""Decoy DERM: a coloured square in a corner of each skin photograph (Ghitu et al. 2025)."""

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from rightreasons.core.checks import check_choice, check_flag
from rightreasons.core.progress import map_parallel
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.download import download as fetch
from rightreasons.datasets.images.archives import decode_jpegs
from rightreasons.datasets.images.files import UNREADABLE, check_data_dir
from rightreasons.datasets.sets.decoys import all_corners_mask, decoy_batch
from rightreasons.datasets.splitting import in_memory_splits
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError
from rightreasons.types import Batch

__all__ = ["SIZES", "DermaMnist", "DermaMnistArrays", "decoy_derm", "read_dermamnist"]

SIZES = (28, 64)
CARD = Card(
    name="decoy_derm",
    description="Skin photographs, nevus or not, with a swatch in a random corner of each.",
    source=(
        "DermaMNIST of MedMNIST v2, J. Yang et al. 2023 (Zenodo record 10519652), from HAM10000, "
        "P. Tschandl et al. 2018; swatches after Ghitu et al. 2025"
    ),
    licence="CC BY-NC 4.0",
    shortcut=(
        "A swatch in a random corner: bluish for a nevus and greenish for everything else in "
        "training and validation, either at random at test."
    ),
    classes=("nevus", "other"),
    groups=("nevus", "other"),
)
PARTS = ("train", "val", "test")
NUM_CLASSES = 7
FILES = {  # in order of preference; larger images are shrunk
    28: ("dermamnist.npz", "dermamnist_rebuilt.npz"),
    64: ("dermamnist_64.npz", "dermamnist_128.npz", "dermamnist_224.npz", "ham10000_128.npz"),
}
HAM_FILE = "ham10000_128.npz"
PUBLISHED = {  # SHA-256 of the files at the source
    "dermamnist.npz": "1a309fec2e33bb6aba88e7d078e5ccbb9736c84a0b415ac197eb3c8fa331e050",
    "dermamnist_64.npz": "1dcb34f0a67ab8679df5eb4d1070c7db8f1c3e359d3dda76cc4e07080e5e91c6",
}
SOURCE = "https://zenodo.org/records/10519652/files/"
WORKERS = 2
NEVUS = 5
PALETTE = ((0.5, 0.5, 0.7), (0.5, 0.7, 0.5))


def decoy_derm(
    data_dir: str | PathLike[str],
    *,
    size: int = 28,
    seed: int = 0,
    oracle: bool = False,
    merge_validation: bool = False,
    test_masks: str = "patch",
    download: bool = False,
) -> Splits:
    """Skin photographs, a corner swatch whose colour tells the label.

    DermaMNIST in [0, 1] as a binary task: melanocytic nevi (two thirds) are 0, the six other
    classes 1. A square swatch, a quarter of the side, lies in a random corner of each image. Its
    colour in training and validation is (.5, .5, .7) for label 0 and (.5, .7, .5) for label 1; at
    test it is one of the two at random. The mask is the swatch, ``(N, 1, H, W)``; the group is the
    label.

    The parts are the official ones: 7,007 to train, 1,003 to choose settings, 2,005 to test.
    HAM10000 has several photographs of some lesions, and these parts do not keep them together.

    Differs from the paper: its code trains on the validation part too (``merge_validation``) and
    so has no data to choose settings on.

    Args:
        data_dir: Folder with DermaMNIST, as in `read_dermamnist`.
        size: Side of the images: 28, or 64 as in the paper.
        seed: Random seed for the corners and the colours.
        oracle: Whether to draw the training and validation colours at random, so that they tell
            nothing. A model trained on such data has no shortcut to learn. Corners and test set
            stay the same.
        merge_validation: Whether to train on the validation part too, as in the paper; there is
            then no validation data.
        test_masks: ``"patch"``: the swatch of the image; ``"corners"``: all four corners, for
            which the paper measures fragility.
        download: Whether to download DermaMNIST into ``data_dir`` if it is not there.

    Raises:
        DatasetNotFoundError: DermaMNIST is not in ``data_dir``.
        DatasetCorruptError: The file cannot be read.

    References:
        ghitu2025model, yang2023medmnist
    """
    check_choice("size", size, SIZES)
    check_choice("test_masks", test_masks, ("patch", "corners"))
    rule = "any" if check_flag("oracle", oracle) else "label"
    check_flag("merge_validation", merge_validation)
    check_flag("download", download)
    random_stream(seed)
    derma = read_dermamnist(data_dir, size=size, download=download)

    def add_patches(part: str, arrays: DermaMnistArrays, rule: str) -> Batch:
        x, y = arrays
        return decoy_batch(
            torch.from_numpy(x.astype(np.float32)).div_(255).permute(0, 3, 1, 2).contiguous(),
            torch.from_numpy((y != NEVUS).astype(np.int64)),
            palette=torch.tensor(PALETTE),
            patch=size // 4,
            rule=rule,
            stream=random_stream(seed, "decoy_derm", part),
        )

    train = add_patches("train", derma.train, rule)
    val = add_patches("val", derma.val, rule)
    test = add_patches("test", derma.test, "any")
    if test_masks == "corners":
        corners = all_corners_mask(height=size, width=size, patch=size // 4)
        test = test.replace(mask=corners.expand(len(test), -1, -1, -1))
    return in_memory_splits(
        train=Batch.collate([train, val]) if merge_validation else train,
        val=None if merge_validation else val,
        test=test,
        card=replace(CARD, source=f"{CARD.source}; here from {derma.file}"),
    )


class DermaMnistArrays(NamedTuple):
    """Images ``(N, size, size, 3)`` and labels ``(N,)`` of a part, 8-bit."""

    x: NDArray[np.uint8]
    y: NDArray[np.uint8]


class DermaMnist(NamedTuple):
    """The parts of the official split, and the name of their file."""

    train: DermaMnistArrays
    val: DermaMnistArrays
    test: DermaMnistArrays
    file: str


def read_dermamnist(
    data_dir: str | PathLike[str], *, size: int = 28, download: bool = False
) -> DermaMnist:
    """Read DermaMNIST in its official split, seven classes, 28 or 64 pixels a side.

    For 28 pixels the first of these files in ``data_dir`` is read:

    - ``dermamnist.npz``, as published by MedMNIST;
    - ``dermamnist_rebuilt.npz``, the same photographs resized again (so not the same bytes).

    For 64 pixels it is the first of these:

    - ``dermamnist_64.npz``, as published;
    - ``dermamnist_128.npz`` or ``dermamnist_224.npz``, as published, resized here;
    - ``ham10000_128.npz``, the photographs of HAM10000 in 128 pixels as JPEG, resized here.

    Args:
        data_dir: The folder with the files.
        size: 28 or 64.
        download: Whether to download the published file of this size if no file is there.

    Raises:
        DatasetNotFoundError: No file is there.
        DatasetCorruptError: The file cannot be read.
    """
    check_choice("size", size, SIZES)
    root = check_data_dir(data_dir)
    paths = [root / name for name in FILES[size] if (root / name).is_file()]
    if not paths and download:
        name = FILES[size][0]
        fetch([f"{SOURCE}{name}"], root / name, sha256=PUBLISHED[name])
        paths = [root / name]
    if not paths:
        raise DatasetNotFoundError(
            f"Expected DermaMNIST with {size} pixels in {root}, but found none of "
            f"{', '.join(FILES[size])}. Put one of them there, or pass download=True where there "
            "is a network."
        )
    parts = _read_file(paths[0], size)
    for part, arrays in parts.items():
        _check_arrays(arrays, part=part, path=paths[0], size=size)
    return DermaMnist(**parts, file=paths[0].name)


def _read_file(path: Path, size: int) -> dict[str, DermaMnistArrays]:
    read = _read_ham if path.name == HAM_FILE else _read_medmnist
    try:
        return read(path, size)
    except UNREADABLE as error:
        raise DatasetCorruptError(
            f"Expected {path} to hold DermaMNIST, but it is truncated or damaged ({error}). Delete "
            "it and copy it anew, or pass download=True where there is a network."
        ) from error


def _read_medmnist(path: Path, size: int) -> dict[str, DermaMnistArrays]:
    # NumPy leaves a file open that it opened itself and cannot read
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        parts = {}
        for part in PARTS:
            images = archive[f"{part}_images"]
            if images.ndim == 4 and images.shape[1] > size:
                images = _shrink(images, size)
            labels = archive[f"{part}_labels"].reshape(len(images))
            parts[part] = DermaMnistArrays(images, labels)
    return parts


def _read_ham(path: Path, size: int) -> dict[str, DermaMnistArrays]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        content, offsets = archive["jpeg"], archive["offsets"]
        labels, split = archive["label"], archive["split"]
    x = decode_jpegs(content, offsets, np.arange(len(labels)), size=size)
    return {
        part: DermaMnistArrays(x[split == number], labels[split == number])
        for number, part in enumerate(PARTS)
    }


def _shrink(images: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    def shrink(index: int) -> NDArray[np.uint8]:
        image = Image.fromarray(images[index])
        return np.asarray(image.resize((size, size), Image.Resampling.BICUBIC))

    shrunk = map_parallel(shrink, len(images), workers=WORKERS, description="shrinking images")
    return np.stack(shrunk)


def _check_arrays(arrays: DermaMnistArrays, *, part: str, path: Path, size: int) -> None:
    x, y = arrays
    fits = x.shape == (len(y), size, size, 3) and len(y) > 0
    if not fits or x.dtype != np.uint8 or not np.isin(y, np.arange(NUM_CLASSES)).all():
        raise DatasetCorruptError(
            f"Expected the {part} part of {path} to hold 8-bit images (N, {size}, {size}, 3) and "
            f"labels (N,) from 0 to {NUM_CLASSES - 1}, but got {x.dtype} {x.shape} and {y.dtype} "
            f"{y.shape} with labels from {y.min(initial=0)} to {y.max(initial=0)}. Is it "
            "DermaMNIST?"
        )
