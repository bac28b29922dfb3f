"""CIFAR-10 as it lies in a data directory, in any of its usual forms."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rightreasons.datasets.parallel import in_parallel
from rightreasons.datasets.pickled_arrays import unpickled
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["CifarPart", "read_cifar10"]

JPEG_FILE = "cifar10_jpeg.npz"
SHAPE = (3, 32, 32)
ROW_BYTES = 1 + 3 * 32 * 32  # label, then red, green and blue
TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = ("test_batch",)
FORMS = {"cifar-10-batches-py": "", "cifar-10-batches-bin": ".bin"}  # folder -> suffix
WORKERS = 2
CHUNK = 500


@dataclass(frozen=True)
class CifarPart:
    """The training or the test images; those of a JPEG archive are decoded when asked for.

    Args:
        y: Labels ``(N,)``.
        images: From positions ``(n,)`` to 8-bit pixels ``(n, 3, 32, 32)``.
    """

    y: NDArray[np.int64]
    images: Callable[[NDArray[np.int64]], NDArray[np.uint8]]


def read_cifar10(data_dir: str | PathLike[str]) -> tuple[CifarPart, CifarPart]:
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
    root = Path(data_dir).expanduser()
    if root.is_file():
        raise DatasetNotFoundError(
            f"Expected `data_dir` to be a folder, but got the file {root}. Pass {root.parent}."
        )
    for name, suffix in FORMS.items():
        for folder in (root, root / name):
            files = [folder / f"{batch}{suffix}" for batch in (*TRAIN, *TEST)]
            if all(file.is_file() for file in files):
                read = _read_binary if suffix else _read_pickled
                parts = [_readable(file, read) for file in files]
                return _joined(parts[:-1]), _joined(parts[-1:])
    if (root / JPEG_FILE).is_file():
        train, test = _readable(root / JPEG_FILE, _read_jpeg)
        return train, test
    raise DatasetNotFoundError(
        f"Expected CIFAR-10 in {root}, but found neither the batches ({TRAIN[0]} to {TRAIN[-1]} "
        f"and {TEST[0]}) there or in {' or '.join(FORMS)}, nor {JPEG_FILE}. Unpack "
        "cifar-10-python.tar.gz or cifar-10-binary.tar.gz there."
    )


def _readable(path: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(path)
    except Exception as error:  # a damaged pickle may raise anything
        raise _corrupt(path, error) from error


def _corrupt(path: Path, error: Exception) -> DatasetCorruptError:
    return DatasetCorruptError(
        f"Expected {path} to hold CIFAR-10, but it is truncated or damaged ({error}). Copy it anew."
    )


def _read_pickled(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    content = unpickled(path)
    pixels, labels = content["data"], np.asarray(content["labels"], dtype=np.int64)
    return _checked(pixels.reshape(-1, *SHAPE), labels)


def _read_binary(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    rows = np.fromfile(path, dtype=np.uint8).reshape(-1, ROW_BYTES)
    return _checked(rows[:, 1:].reshape(-1, *SHAPE), rows[:, 0].astype(np.int64))


def _checked(
    pixels: NDArray[np.uint8], labels: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    if pixels.dtype != np.uint8 or labels.shape != (len(pixels),) or not len(labels):
        raise ValueError(f"{pixels.dtype} pixels {pixels.shape}, labels {labels.shape}")
    if not np.isin(labels, np.arange(10)).all():
        raise ValueError(f"labels from {labels.min()} to {labels.max()}")
    return pixels, labels


def _joined(parts: Sequence[tuple[NDArray[np.uint8], NDArray[np.int64]]]) -> CifarPart:
    pixels = np.concatenate([some for some, _ in parts])
    return CifarPart(np.concatenate([labels for _, labels in parts]), lambda places: pixels[places])


def _read_jpeg(path: Path) -> tuple[CifarPart, CifarPart]:
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
) -> CifarPart:
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
            in_parallel(decode, num_chunks, workers=WORKERS, description="decoding images")
        except (OSError, SyntaxError, ValueError) as error:
            raise _corrupt(path, error) from error
        return pixels

    return CifarPart(y, images)
