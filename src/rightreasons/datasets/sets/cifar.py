"""CIFAR-10 and CIFAR-100: small photographs, no masks."""

import io
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.files import unpickled
from rightreasons.datasets.images.pixels import PixelPart, pixel_splits
from rightreasons.datasets.parallel import map_parallel
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["SHAPE", "cifar10", "cifar100", "read_cifar10", "read_cifar100"]

JPEG_FILE = "cifar10_jpeg.npz"
SHAPE = (3, 32, 32)
PIXEL_BYTES = 3 * 32 * 32  # red, green and blue, behind the labels
TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = ("test_batch",)
FORMS = {"cifar-10-batches-py": "", "cifar-10-batches-bin": ".bin"}  # folder -> suffix
FINE_FORMS = {"cifar-100-python": "", "cifar-100-binary": ".bin"}
WORKERS = 2
CHUNK = 500
Arrays = tuple[NDArray[np.uint8], NDArray[np.int64]]


def read_cifar10(data_dir: str | PathLike[str]) -> tuple[PixelPart, PixelPart]:
    """Read CIFAR-10: the python or binary batches, or ``cifar10_jpeg.npz``.

    Args:
        data_dir: Where to look: in the folder itself, and in ``cifar-10-batches-py`` (as
            torchvision unpacks it) and ``cifar-10-batches-bin``. Original pixels come before the
            archive of JPEGs, whose compression changed them a little.

    Returns:
        The training and the test part.

    Raises:
        DatasetNotFoundError: Nothing is there.
        DatasetCorruptError: What is there cannot be read.
    """
    root = _folder(data_dir)
    found = _found(root, FORMS, (*TRAIN, *TEST), num_classes=10)
    if found:
        return _joined(found[:-1]), _joined(found[-1:])
    if (root / JPEG_FILE).is_file():
        train, test = _readable(root / JPEG_FILE, _read_jpeg)
        return train, test
    raise DatasetNotFoundError(
        f"Expected CIFAR-10 in {root}, but found neither the batches ({TRAIN[0]} to {TRAIN[-1]} "
        f"and {TEST[0]}) there or in {' or '.join(FORMS)}, nor {JPEG_FILE}. Unpack "
        "cifar-10-python.tar.gz or cifar-10-binary.tar.gz there."
    )


def read_cifar100(data_dir: str | PathLike[str]) -> tuple[PixelPart, PixelPart]:
    """Read CIFAR-100 with its fine labels: the python or the binary files.

    Args:
        data_dir: Where to look: in the folder itself, and in ``cifar-100-python`` (as torchvision
            unpacks it) and ``cifar-100-binary``.

    Returns:
        The training and the test part.

    Raises:
        DatasetNotFoundError: Nothing is there.
        DatasetCorruptError: What is there cannot be read.
    """
    root = _folder(data_dir)
    found = _found(root, FINE_FORMS, ("train", "test"), num_classes=100)
    if not found:
        raise DatasetNotFoundError(
            f"Expected CIFAR-100 in {root}, but found no files train and test (or train.bin and "
            f"test.bin) there or in {' or '.join(FINE_FORMS)}. Unpack cifar-100-python.tar.gz or "
            "cifar-100-binary.tar.gz there."
        )
    return _joined(found[:1]), _joined(found[1:])


def _folder(data_dir: str | PathLike[str]) -> Path:
    root = Path(data_dir).expanduser()
    if root.is_file():
        raise DatasetNotFoundError(
            f"Expected `data_dir` to be a folder, but got the file {root}. Pass {root.parent}."
        )
    return root


def _found(
    root: Path, forms: dict[str, str], names: Sequence[str], *, num_classes: int
) -> list[Arrays]:
    """The arrays of the files of that name, from the first folder that has them all."""
    for form, suffix in forms.items():
        for folder in (root, root / form):
            files = [folder / f"{name}{suffix}" for name in names]
            if all(file.is_file() for file in files):
                read = partial(_read_binary if suffix else _read_pickled, num_classes=num_classes)
                return [_readable(file, read, num_classes) for file in files]
    return []


def _readable(path: Path, read: Callable[[Path], Any], num_classes: int = 10) -> Any:
    try:
        return read(path)
    except Exception as error:  # a damaged pickle may raise anything
        raise _corrupt(path, error, num_classes) from error


def _corrupt(path: Path, error: Exception, num_classes: int = 10) -> DatasetCorruptError:
    return DatasetCorruptError(
        f"Expected {path} to hold CIFAR-{num_classes}, but it is truncated or damaged ({error}). "
        "Copy it anew."
    )


def _read_pickled(path: Path, *, num_classes: int) -> Arrays:
    content = unpickled(path)
    labels = content["labels" if num_classes == 10 else "fine_labels"]
    pixels = content["data"].reshape(-1, *SHAPE)
    return _checked(pixels, np.asarray(labels, dtype=np.int64), num_classes)


def _read_binary(path: Path, *, num_classes: int) -> Arrays:
    num_labels = 1 if num_classes == 10 else 2  # coarse, then fine
    rows = np.fromfile(path, dtype=np.uint8).reshape(-1, num_labels + PIXEL_BYTES)
    labels = rows[:, num_labels - 1].astype(np.int64)
    return _checked(rows[:, num_labels:].reshape(-1, *SHAPE), labels, num_classes)


def _checked(pixels: NDArray[np.uint8], labels: NDArray[np.int64], num_classes: int = 10) -> Arrays:
    if pixels.dtype != np.uint8 or labels.shape != (len(pixels),) or not len(labels):
        raise ValueError(f"{pixels.dtype} pixels {pixels.shape}, labels {labels.shape}")
    if not np.isin(labels, np.arange(num_classes)).all():
        raise ValueError(f"labels from {labels.min()} to {labels.max()}")
    return pixels, labels


def _joined(parts: Sequence[Arrays]) -> PixelPart:
    pixels = np.concatenate([some for some, _ in parts])
    return PixelPart(np.concatenate([labels for _, labels in parts]), lambda places: pixels[places])


def _read_jpeg(path: Path) -> tuple[PixelPart, PixelPart]:
    # NumPy leaves a file open that it opened itself and cannot read
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        train, test = (
            _decoding(
                path,
                archive[f"jpeg_{part}"],
                archive[f"offsets_{part}"],
                archive[f"y_{part}"].astype(np.int64),
            )
            for part in ("train", "test")
        )
    return train, test


def _decoding(
    path: Path, content: NDArray[np.uint8], offsets: NDArray[np.int64], y: NDArray[np.int64]
) -> PixelPart:
    _checked(np.empty((len(offsets) - 1, 0), dtype=np.uint8), y)

    def images(places: NDArray[np.int64]) -> NDArray[np.uint8]:
        pixels = np.empty((len(places), *SHAPE), dtype=np.uint8)

        def decode(chunk: int) -> None:  # one image is too little work for a thread
            for number in range(chunk * CHUNK, min((chunk + 1) * CHUNK, len(places))):
                start, stop = offsets[places[number]], offsets[places[number] + 1]
                with Image.open(io.BytesIO(content[start:stop].tobytes())) as image:
                    pixels[number] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)

        num_chunks = -(-len(places) // CHUNK)
        try:
            map_parallel(decode, num_chunks, workers=WORKERS, description="decoding images")
        except (OSError, SyntaxError, ValueError) as error:
            raise _corrupt(path, error) from error
        return pixels

    return PixelPart(y, images)


CARD = Card(
    name="cifar10",
    description="Photographs of 32×32 pixels, ten classes.",
    source="CIFAR-10, A. Krizhevsky 2009, from the 80 million tiny images",
    licence="none stated",
    shortcut="none known",
    classes=(
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ),
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
    epsilon is in these units. They are kept in memory in 8 bits.

    Args:
        data_dir: Where CIFAR-10 lies, see `read_cifar10`.
        seed: Of the validation split, the subset, and the flips and crops.
        subset: How many of the remaining training images to use, stratified by class; a smaller
            subset is part of a larger one. None for all.
        validation: How many of the training images to hold out, stratified by class; 0 for none.
        flip: Mirror training images at random, see `Augmented`.
        crop: Move training images by up to so many pixels at random, see `Augmented`.

    Raises:
        DatasetNotFoundError: CIFAR-10 is not in ``data_dir``.
        DatasetCorruptError: It cannot be read.

    References:
        krizhevsky2009learning
    """
    return pixel_splits(
        lambda: read_cifar10(data_dir),
        CARD,
        seed=seed,
        subset=subset,
        validation=validation,
        flip=flip,
        crop=crop,
    )


NAMES = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
    butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch
    crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo
    keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
    mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain
    plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
    skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone
    television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CARD_100 = Card(
    name="cifar100",
    description="Photographs of 32×32 pixels, a hundred classes.",
    source="CIFAR-100, A. Krizhevsky 2009, from the 80 million tiny images",
    licence="none stated",
    shortcut="none known",
    classes=tuple(NAMES.split()),
    shape=SHAPE,
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
    epsilon is in these units. They are kept in memory in 8 bits. Labels are the fine ones.

    Args:
        data_dir: Where CIFAR-100 lies, see `read_cifar100`.
        seed: Of the validation split, the subset, and the flips and crops.
        subset: How many of the remaining training images to use, stratified by class; a smaller
            subset is part of a larger one. None for all.
        validation: How many of the training images to hold out, stratified by class; 0 for none.
        flip: Mirror training images at random, see `Augmented`.
        crop: Move training images by up to so many pixels at random, see `Augmented`.

    Raises:
        DatasetNotFoundError: CIFAR-100 is not in ``data_dir``.
        DatasetCorruptError: It cannot be read.

    References:
        krizhevsky2009learning
    """
    return pixel_splits(
        lambda: read_cifar100(data_dir),
        CARD_100,
        seed=seed,
        subset=subset,
        validation=validation,
        flip=flip,
        crop=crop,
    )
