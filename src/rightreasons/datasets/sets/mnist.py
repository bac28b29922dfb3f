"""MNIST, which several data sets change: its usual file formats, its splits, its card."""

import gzip
import struct
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rightreasons.core.checks import check_flag, check_integer
from rightreasons.datasets.dataset import Card
from rightreasons.datasets.download import download as fetch
from rightreasons.datasets.images.files import UNREADABLE, check_data_dir
from rightreasons.datasets.images.pixels import split_training
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["DIGITS_CARD", "MnistArrays", "read_mnist", "split_mnist"]

DIGITS_CARD = Card(
    source="MNIST, Y. LeCun, C. Cortes and C. J. C. Burges",
    licence="CC BY-SA 3.0",
    classes=tuple(str(digit) for digit in range(10)),
    groups=tuple(f"digit {digit}" for digit in range(10)),
)
# the four idx files, in the order of MnistArrays, and the SHA-256 of their unpacked content
IDX_FILES = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
NPZ_FILE = "mnist.npz"
FOLDERS = (Path(), Path("MNIST", "raw"), Path("raw"))


class MnistArrays(NamedTuple):
    """Images ``(N, 28, 28)`` and labels ``(N,)``, 8-bit, as published."""

    x_train: NDArray[np.uint8]
    y_train: NDArray[np.uint8]
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.uint8]


def read_mnist(data_dir: str | PathLike[str], *, download: bool = False) -> MnistArrays:
    """Read MNIST: ``mnist.npz``, idx files (plain or ``.gz``), or torchvision's layout.

    Args:
        data_dir: The folder; ``MNIST/raw`` and ``raw`` below it are searched too.
        download: Whether to download the idx files into ``MNIST/raw`` if no files are there. They
            are checked against their published content.

    Raises:
        DatasetNotFoundError: No files are there.
        DatasetCorruptError: A file cannot be read.
    """
    root = check_data_dir(data_dir)
    archive = root / NPZ_FILE
    if archive.is_file():
        return _check_arrays(_read_file(archive, _read_npz), archive)
    paths = _idx_paths(root)
    if paths is None and download:
        for name, sha256 in IDX_FILES.items():
            target = root / FOLDERS[1] / name
            if not target.exists():
                urls = [f"{mirror}{name}.gz" for mirror in MIRRORS]
                fetch(urls, target, sha256=sha256, unpack=True)
        paths = _idx_paths(root)
    if paths is None:
        raise DatasetNotFoundError(
            f"Expected MNIST in {root}, but found neither {NPZ_FILE} nor the four idx files "
            f"({', '.join(IDX_FILES)}; plain or .gz) there or in MNIST/raw, as torchvision puts "
            "them. Put one of the two there, or pass download=True where there is a network."
        )
    arrays = MnistArrays(*(_read_file(path, _read_idx) for path in paths))
    return _check_arrays(arrays, paths[0].parent)


def split_mnist(
    data_dir: str | PathLike[str],
    name: str,
    *,
    seed: int,
    validation: int,
    subset: int | None = None,
    download: bool = False,
) -> dict[str, tuple[NDArray[np.uint8], Tensor]]:
    """Read MNIST and hold out validation images.

    Args:
        data_dir: Folder with MNIST, as in `read_mnist`.
        name: Name of the data set; the draw depends on it and on the seed.
        seed: Random seed, from 0.
        validation: Number of training images to hold out, stratified by digit; 0 for none.
        subset: Number of the other images to train on; None for all.
        download: Whether to download MNIST if it is not there.

    Returns:
        8-bit images ``(N, 28, 28)`` and labels ``(N,)`` of ``"train"``, ``"test"`` and, if
        ``validation`` is not 0, ``"val"``.
    """
    check_flag("download", download)
    check_integer("validation", validation, low=0)
    if subset is not None:
        check_integer("subset", subset)
    check_integer("seed", seed, low=0)
    mnist = read_mnist(data_dir, download=download)
    y = torch.from_numpy(mnist.y_train.astype(np.int64))
    val, train = split_training(y, name=name, seed=seed, validation=validation, subset=subset)
    parts = {
        "train": (mnist.x_train[train.numpy()], y[train]),
        "test": (mnist.x_test, torch.from_numpy(mnist.y_test.astype(np.int64))),
    }
    if validation:
        parts["val"] = (mnist.x_train[val.numpy()], y[val])
    return parts


def _idx_paths(root: Path) -> list[Path] | None:
    """The four files, from the first folder that has them all."""
    for folder in FOLDERS:
        spellings = [_first_spelling(root / folder, name) for name in IDX_FILES]
        paths = [path for path in spellings if path is not None]
        if len(paths) == len(IDX_FILES):
            return paths
    return None


def _first_spelling(folder: Path, name: str) -> Path | None:
    spellings = (name, f"{name}.gz", name.replace("-idx", ".idx"))
    return next(
        (folder / spelling for spelling in spellings if (folder / spelling).is_file()), None
    )


def _read_file(path: Path, read: Any) -> Any:
    try:
        return read(path)
    except UNREADABLE as error:
        raise DatasetCorruptError(
            f"Expected {path} to hold MNIST, but it is truncated or damaged ({error}). Delete it "
            "and copy it anew, or pass download=True where there is a network."
        ) from error


def _read_npz(path: Path) -> MnistArrays:
    # NumPy leaves a file open that it opened itself and cannot read
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        missing = [key for key in MnistArrays._fields if key not in archive]
        if missing:
            raise ValueError(f"it has no {', '.join(missing)}")
        return MnistArrays(*(archive[key] for key in MnistArrays._fields))


def _read_idx(path: Path) -> NDArray[np.uint8]:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    kind, num_axes = struct.unpack(">HBB", content[:4])[1:]
    if kind != 8:  # unsigned bytes
        raise ValueError("it does not start like an idx file of bytes")
    header = 4 + 4 * num_axes
    shape = struct.unpack(f">{num_axes}I", content[4:header])
    values = np.frombuffer(content, dtype=np.uint8, offset=header)
    if values.size != np.prod(shape, dtype=np.int64):
        raise ValueError(f"it announces {'x'.join(map(str, shape))} bytes and has {values.size}")
    return values.reshape(shape)


def _check_arrays(arrays: MnistArrays, origin: Path) -> MnistArrays:
    for part, x, y in (("train", *arrays[:2]), ("test", *arrays[2:])):
        fits = x.ndim == 3 and x.shape[1:] == (28, 28) and y.shape == (len(x),) and len(x) > 0
        if not fits or x.dtype != np.uint8 or not np.isin(y, np.arange(10)).all():
            raise DatasetCorruptError(
                f"Expected the {part} part of {origin} to hold 8-bit images (N, 28, 28) and labels "
                f"(N,) from 0 to 9, but got {x.dtype} {x.shape} and {y.dtype} {y.shape} with "
                f"labels from {y.min(initial=0)} to {y.max(initial=0)}. Is it MNIST?"
            )
    return arrays
