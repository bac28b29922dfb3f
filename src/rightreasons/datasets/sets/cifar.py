"""CIFAR-10 and CIFAR-100: small photographs without masks."""

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.archives import decode_jpegs, unpickle
from rightreasons.datasets.images.files import UNREADABLE, check_data_dir
from rightreasons.datasets.images.pixels import PixelPart, pixel_splits
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["SHAPE", "cifar10", "cifar100", "read_cifar10", "read_cifar100"]

JPEG_FILE = "cifar10_jpeg.npz"
SHAPE = (3, 32, 32)
PIXEL_BYTES = 3 * 32 * 32  # red, green and blue; they follow the labels
TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = ("test_batch",)
FORMS = {"cifar-10-batches-py": "", "cifar-10-batches-bin": ".bin"}  # folder -> suffix
FINE_FORMS = {"cifar-100-python": "", "cifar-100-binary": ".bin"}
Arrays = tuple[NDArray[np.uint8], NDArray[np.int64]]
CIFAR10_NAMES = "airplane automobile bird cat deer dog frog horse ship truck"
CIFAR10_CARD = Card(
    name="cifar10",
    description="Photographs of 32×32 pixels, ten classes.",
    source="CIFAR-10, A. Krizhevsky 2009, from the 80 million tiny images",
    licence="none stated",
    shortcut="none known",
    classes=tuple(CIFAR10_NAMES.split()),
    shape=SHAPE,
)
CIFAR100_NAMES = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
    butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch
    crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo
    keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
    mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain
    plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
    skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone
    television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CIFAR100_CARD = Card(
    name="cifar100",
    description="Photographs of 32×32 pixels, a hundred classes.",
    source="CIFAR-100, A. Krizhevsky 2009, from the 80 million tiny images",
    licence="none stated",
    shortcut="none known",
    classes=tuple(CIFAR100_NAMES.split()),
    shape=SHAPE,
)


def cifar10(
    data_dir: str | PathLike[str],
    *,
    seed: int = 0,
    subset: int | None = None,
    validation: int = 5000,
    flip: bool = False,
    crop: int = 0,
) -> Splits:
    """CIFAR-10: photographs of ten kinds; no masks, no groups.

    50,000 training and 10,000 test images, ``(N, 3, 32, 32)`` in [0, 1], not normalised: an
    epsilon has these units. They are kept in memory in 8 bits.

    Args:
        data_dir: Folder with CIFAR-10, as in `read_cifar10`.
        seed: Random seed for the validation split, the subset, the flips and the crops.
        subset: Number of the other images to train on, stratified by class; None for all. A
            smaller subset is part of a larger one.
        validation: Number of training images to hold out, stratified by class; 0 for none.
        flip: Whether to mirror training images at random, as in `Augmented`.
        crop: Largest random shift of training images in pixels, as in `Augmented`.

    Raises:
        DatasetNotFoundError: CIFAR-10 is not in ``data_dir``.
        DatasetCorruptError: A file cannot be read.

    References:
        krizhevsky2009learning
    """
    return pixel_splits(
        lambda: read_cifar10(data_dir),
        CIFAR10_CARD,
        seed=seed,
        subset=subset,
        validation=validation,
        flip=flip,
        crop=crop,
    )


def cifar100(
    data_dir: str | PathLike[str],
    *,
    seed: int = 0,
    subset: int | None = None,
    validation: int = 5000,
    flip: bool = False,
    crop: int = 0,
) -> Splits:
    """CIFAR-100: photographs of a hundred kinds; no masks, no groups.

    50,000 training and 10,000 test images, ``(N, 3, 32, 32)`` in [0, 1], not normalised: an
    epsilon has these units. They are kept in memory in 8 bits. Labels are the fine ones.

    Args:
        data_dir: Folder with CIFAR-100, as in `read_cifar100`.
        seed: Random seed for the validation split, the subset, the flips and the crops.
        subset: Number of the other images to train on, stratified by class; None for all. A
            smaller subset is part of a larger one.
        validation: Number of training images to hold out, stratified by class; 0 for none.
        flip: Whether to mirror training images at random, as in `Augmented`.
        crop: Largest random shift of training images in pixels, as in `Augmented`.

    Raises:
        DatasetNotFoundError: CIFAR-100 is not in ``data_dir``.
        DatasetCorruptError: A file cannot be read.

    References:
        krizhevsky2009learning
    """
    return pixel_splits(
        lambda: read_cifar100(data_dir),
        CIFAR100_CARD,
        seed=seed,
        subset=subset,
        validation=validation,
        flip=flip,
        crop=crop,
    )


def read_cifar10(data_dir: str | PathLike[str]) -> tuple[PixelPart, PixelPart]:
    """Read CIFAR-10: the python or binary batches, or ``cifar10_jpeg.npz``.

    Args:
        data_dir: The folder; ``cifar-10-batches-py`` (of torchvision) and
            ``cifar-10-batches-bin`` below it are searched too. Original pixels are preferred to
            the archive of JPEGs, whose compression changed them a little.

    Returns:
        The training and the test part.

    Raises:
        DatasetNotFoundError: No files are there.
        DatasetCorruptError: A file cannot be read.
    """
    root = check_data_dir(data_dir)
    arrays = _read_first_folder(root, FORMS, (*TRAIN, *TEST), num_classes=10)
    if arrays:
        return _join(arrays[:-1]), _join(arrays[-1:])
    if (root / JPEG_FILE).is_file():
        train, test = _read_file(root / JPEG_FILE, _read_jpeg)
        return train, test
    raise DatasetNotFoundError(
        f"Expected CIFAR-10 in {root}, but found neither the batches ({TRAIN[0]} to {TRAIN[-1]} "
        f"and {TEST[0]}) there or in {' or '.join(FORMS)}, nor {JPEG_FILE}. Unpack "
        "cifar-10-python.tar.gz or cifar-10-binary.tar.gz there."
    )


def read_cifar100(data_dir: str | PathLike[str]) -> tuple[PixelPart, PixelPart]:
    """Read CIFAR-100 with its fine labels: the python or the binary files.

    Args:
        data_dir: The folder; ``cifar-100-python`` (of torchvision) and ``cifar-100-binary``
            below it are searched too.

    Returns:
        The training and the test part.

    Raises:
        DatasetNotFoundError: No files are there.
        DatasetCorruptError: A file cannot be read.
    """
    root = check_data_dir(data_dir)
    arrays = _read_first_folder(root, FINE_FORMS, ("train", "test"), num_classes=100)
    if not arrays:
        raise DatasetNotFoundError(
            f"Expected CIFAR-100 in {root}, but found no files train and test (or train.bin and "
            f"test.bin) there or in {' or '.join(FINE_FORMS)}. Unpack cifar-100-python.tar.gz or "
            "cifar-100-binary.tar.gz there."
        )
    return _join(arrays[:1]), _join(arrays[1:])


def _read_first_folder(
    root: Path, forms: dict[str, str], names: Sequence[str], *, num_classes: int
) -> list[Arrays]:
    """Read the named files from the first folder that has them all; an empty list if none."""
    for form, suffix in forms.items():
        for folder in (root, root / form):
            files = [folder / f"{name}{suffix}" for name in names]
            if all(file.is_file() for file in files):
                read = partial(_read_binary if suffix else _read_pickled, num_classes=num_classes)
                return [_read_file(file, read, num_classes) for file in files]
    return []


def _read_file(path: Path, read: Callable[[Path], Any], num_classes: int = 10) -> Any:
    try:
        return read(path)
    except Exception as error:  # a damaged pickle may raise any exception
        raise _corrupt(path, error, num_classes) from error


def _corrupt(path: Path, error: Exception, num_classes: int = 10) -> DatasetCorruptError:
    return DatasetCorruptError(
        f"Expected {path} to hold CIFAR-{num_classes}, but it is truncated or damaged ({error}). "
        "Copy it anew."
    )


def _read_pickled(path: Path, *, num_classes: int) -> Arrays:
    content = unpickle(path)
    labels = content["labels" if num_classes == 10 else "fine_labels"]
    pixels = content["data"].reshape(-1, *SHAPE)
    return _check_arrays(pixels, np.asarray(labels, dtype=np.int64), num_classes)


def _read_binary(path: Path, *, num_classes: int) -> Arrays:
    num_labels = 1 if num_classes == 10 else 2  # coarse, then fine
    rows = np.fromfile(path, dtype=np.uint8).reshape(-1, num_labels + PIXEL_BYTES)
    labels = rows[:, num_labels - 1].astype(np.int64)
    return _check_arrays(rows[:, num_labels:].reshape(-1, *SHAPE), labels, num_classes)


def _check_arrays(
    pixels: NDArray[np.uint8], labels: NDArray[np.int64], num_classes: int = 10
) -> Arrays:
    if pixels.dtype != np.uint8 or labels.shape != (len(pixels),) or not len(labels):
        raise ValueError(f"{pixels.dtype} pixels {pixels.shape}, labels {labels.shape}")
    if not np.isin(labels, np.arange(num_classes)).all():
        raise ValueError(f"labels from {labels.min()} to {labels.max()}")
    return pixels, labels


def _join(parts: Sequence[Arrays]) -> PixelPart:
    pixels = np.concatenate([pixels for pixels, _ in parts])
    labels = np.concatenate([labels for _, labels in parts])
    return PixelPart(labels, lambda indices: pixels[indices])


def _read_jpeg(path: Path) -> tuple[PixelPart, PixelPart]:
    # NumPy leaves a file open that it opened itself and cannot read
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        train, test = (
            _decode_later(
                path,
                archive[f"jpeg_{part}"],
                archive[f"offsets_{part}"],
                archive[f"y_{part}"].astype(np.int64),
            )
            for part in ("train", "test")
        )
    return train, test


def _decode_later(
    path: Path, content: NDArray[np.uint8], offsets: NDArray[np.int64], y: NDArray[np.int64]
) -> PixelPart:
    """A part whose images are decoded when they are needed."""
    _check_arrays(np.empty((len(offsets) - 1, 0), dtype=np.uint8), y)

    def decode(indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        try:
            pixels = decode_jpegs(content, offsets, indices, size=SHAPE[1], resize=False)
        except UNREADABLE as error:
            raise _corrupt(path, error) from error
        return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))

    return PixelPart(y, decode)
