"""Decoy DERM: a coloured swatch in a corner of each skin photograph (Ghitu et al. 2025)."""

import io
import zipfile
import zlib
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from rightreasons.core.checks import check_choice, check_flag
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.download import download as fetch
from rightreasons.datasets.parallel import map_parallel
from rightreasons.datasets.sets.decoys import all_corners_mask, decoy_batch
from rightreasons.datasets.splitting import in_memory_splits
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError
from rightreasons.types import Batch

__all__ = ["SIZES", "DermaMnist", "DermaMnistArrays", "decoy_derm", "read_dermamnist"]

SIZES = (28, 64)
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
UNREADABLE = (
    EOFError,
    KeyError,
    OSError,
    TypeError,
    ValueError,
    UnidentifiedImageError,
    zipfile.BadZipFile,
    zlib.error,
)


class DermaMnistArrays(NamedTuple):
    """Images ``(N, size, size, 3)`` and labels ``(N,)`` of a part, 8-bit."""

    x: NDArray[np.uint8]
    y: NDArray[np.uint8]


class DermaMnist(NamedTuple):
    """The parts of the official split, and the name of the file they are from."""

    train: DermaMnistArrays
    val: DermaMnistArrays
    test: DermaMnistArrays
    file: str


def read_dermamnist(
    data_dir: str | PathLike[str], *, size: int = 28, download: bool = False
) -> DermaMnist:
    """Read DermaMNIST in its official split, seven classes, 28 or 64 pixels a side.

    ===== ====================================================================================
    size  the first of these files in ``data_dir``
    ===== ====================================================================================
    28    ``dermamnist.npz``, as MedMNIST publishes it, or ``dermamnist_rebuilt.npz``, the
          same photographs shrunk anew (so not the same bytes)
    64    ``dermamnist_64.npz``, as published; ``dermamnist_128.npz`` or
          ``dermamnist_224.npz``, as published, shrunk here; or ``ham10000_128.npz``, the
          photographs of HAM10000 in 128 pixels as JPEG, shrunk here
    ===== ====================================================================================

    Args:
        data_dir: Where to look.
        size: 28 or 64.
        download: Fetch the published file of this size if none is there.

    Raises:
        DatasetNotFoundError: Nothing is there.
        DatasetCorruptError: What is there cannot be read.
    """
    check_choice("size", size, SIZES)
    root = Path(data_dir).expanduser()
    if root.is_file():
        raise DatasetNotFoundError(
            f"Expected `data_dir` to be a folder, but got the file {root}. Pass {root.parent}."
        )
    found = [root / name for name in FILES[size] if (root / name).is_file()]
    if not found and download:
        name = FILES[size][0]
        fetch([f"{SOURCE}{name}"], root / name, sha256=PUBLISHED[name])
        found = [root / name]
    if not found:
        raise DatasetNotFoundError(
            f"Expected DermaMNIST with {size} pixels in {root}, but found none of "
            f"{', '.join(FILES[size])}. Put one of them there, or pass download=True where there "
            "is a network."
        )
    parts = _readable(found[0], size)
    for part, arrays in parts.items():
        _check(arrays, part=part, path=found[0], size=size)
    return DermaMnist(**parts, file=found[0].name)


def _readable(path: Path, size: int) -> dict[str, DermaMnistArrays]:
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
                images = _shrunk(images, size)
            labels = archive[f"{part}_labels"].reshape(len(images))
            parts[part] = DermaMnistArrays(images, labels)
    return parts


def _read_ham(path: Path, size: int) -> dict[str, DermaMnistArrays]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        content, offsets = archive["jpeg"], archive["offsets"]
        labels, split = archive["label"], archive["split"]

    def decoded(place: int) -> NDArray[np.uint8]:
        start, stop = offsets[place], offsets[place + 1]
        with Image.open(io.BytesIO(content[start:stop].tobytes())) as image:
            return _resized(image.convert("RGB"), size)

    images = map_parallel(decoded, len(labels), workers=WORKERS, description="decoding images")
    x = np.stack(images)
    return {
        part: DermaMnistArrays(x[split == number], labels[split == number])
        for number, part in enumerate(PARTS)
    }


def _shrunk(images: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    def one(place: int) -> NDArray[np.uint8]:
        return _resized(Image.fromarray(images[place]), size)

    return np.stack(map_parallel(one, len(images), workers=WORKERS, description="shrinking images"))


def _resized(image: Image.Image, size: int) -> NDArray[np.uint8]:
    return np.asarray(image.resize((size, size), Image.Resampling.BICUBIC))


def _check(arrays: DermaMnistArrays, *, part: str, path: Path, size: int) -> None:
    x, y = arrays
    fits = x.shape == (len(y), size, size, 3) and len(y) > 0
    if not fits or x.dtype != np.uint8 or not np.isin(y, np.arange(NUM_CLASSES)).all():
        raise DatasetCorruptError(
            f"Expected the {part} part of {path} to hold 8-bit images (N, {size}, {size}, 3) and "
            f"labels (N,) from 0 to {NUM_CLASSES - 1}, but got {x.dtype} {x.shape} and {y.dtype} "
            f"{y.shape} with labels from {y.min(initial=0)} to {y.max(initial=0)}. Is it "
            "DermaMNIST?"
        )


NEVUS = 5
PALETTE = ((0.5, 0.5, 0.7), (0.5, 0.7, 0.5))
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
    classes 1. A square swatch, a quarter of the side, lies in a random corner of each image. In
    training and validation it is (.5, .5, .7) for label 0 and (.5, .7, .5) for label 1; at test
    one of the two at random. The mask is the swatch, ``(N, 1, H, W)``; the group is the label.

    The parts are the official ones: 7,007 to train, 1,003 to choose settings, 2,005 to test.
    HAM10000 has several photographs of some lesions, and these parts do not keep them together.

    Differs from the paper: its code trains on the validation part too (``merge_validation``) and
    so has nothing to choose settings on.

    Args:
        data_dir: Where DermaMNIST lies, see `read_dermamnist`.
        size: Side of the images: 28, or 64 as in the paper.
        seed: Of the corners and the colours.
        oracle: Draw the colours of training and validation at random, so that they tell nothing:
            what a model reaches that has no shortcut to take. Corners and test set stay the same.
        merge_validation: Train on the validation part too, as the paper; nothing then validates.
        test_masks: ``"patch"``: the image's own swatch; ``"corners"``: all four corners, as the
            paper measures fragility.
        download: Fetch DermaMNIST into ``data_dir`` if it is not there.

    Raises:
        DatasetNotFoundError: DermaMNIST is not in ``data_dir``.
        DatasetCorruptError: It cannot be read.

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

    def part(name: str, arrays: DermaMnistArrays, rule: str) -> Batch:
        x, y = arrays
        return decoy_batch(
            torch.from_numpy(x.astype(np.float32)).div_(255).permute(0, 3, 1, 2).contiguous(),
            torch.from_numpy((y != NEVUS).astype(np.int64)),
            palette=torch.tensor(PALETTE),
            patch=size // 4,
            rule=rule,
            stream=random_stream(seed, "decoy_derm", name),
        )

    train = part("train", derma.train, rule)
    val = part("val", derma.val, rule)
    test = part("test", derma.test, "any")
    if test_masks == "corners":
        corners = all_corners_mask(height=size, width=size, patch=size // 4)
        test = test.replace(mask=corners.expand(len(test), -1, -1, -1))
    return in_memory_splits(
        train=Batch.collate([train, val]) if merge_validation else train,
        val=None if merge_validation else val,
        test=test,
        card=replace(CARD, source=f"{CARD.source}; here from {derma.file}"),
    )
