"""Many images in one file: archives of JPEG pictures, pickled arrays."""

from __future__ import annotations

import codecs
import io
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rightreasons.core.progress import map_parallel
from rightreasons.datasets.images.files import UNREADABLE
from rightreasons.errors import DatasetCorruptError

__all__ = ["JpegArchive", "decode_jpegs", "read_pickled_arrays", "unpickle"]

WORKERS = 2
CHUNK = 200  # images decoded in one task: one image is too little work for a thread

_array = np.zeros(1)
_KNOWN: dict[str, Any] = {  # all functions that a pickled array calls
    "ndarray": np.ndarray,
    "dtype": np.dtype,
    "_reconstruct": _array.__reduce_ex__(2)[0],
    "_frombuffer": _array.__reduce_ex__(5)[0],
}


def decode_jpegs(
    content: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    indices: NDArray[np.int64],
    *,
    size: int,
    resize: bool = True,
) -> NDArray[np.uint8]:
    """Decode some JPEG images of one array of bytes: ``(n, size, size, 3)``.

    Args:
        content: The bytes of all images.
        offsets: Image n is ``content[offsets[n]:offsets[n + 1]]``.
        indices: The images to decode.
        size: Side of the result.
        resize: Whether to resize other sizes; else they are a ValueError.
    """
    pixels = np.empty((len(indices), size, size, 3), dtype=np.uint8)

    def decode(chunk: int) -> None:
        for number in range(chunk * CHUNK, min((chunk + 1) * CHUNK, len(indices))):
            start, stop = offsets[indices[number]], offsets[indices[number] + 1]
            with Image.open(io.BytesIO(content[start:stop].tobytes())) as image:
                colours = image.convert("RGB")
                if resize and colours.size != (size, size):
                    colours = colours.resize((size, size), Image.Resampling.BICUBIC)
                pixels[number] = np.asarray(colours)

    num_chunks = -(-len(indices) // CHUNK)
    map_parallel(decode, num_chunks, workers=WORKERS, description="decoding images")
    return pixels


class JpegArchive:
    """An ``.npz`` file of JPEG images: the arrays ``jpeg`` and ``offsets``, and columns.

    Args:
        path: The file.
        columns: Names of arrays with an entry for each image.
        extras: Names of other arrays.
        suffix: End of the names of ``jpeg``, ``offsets`` and the columns in an archive with
            several parts; `columns` has them without it.

    Raises:
        DatasetCorruptError: The file cannot be read, or an array is missing or has another length.
    """

    def __init__(
        self,
        path: Path,
        *,
        columns: Sequence[str],
        extras: Sequence[str] = (),
        suffix: str = "",
    ) -> None:
        self.path = path
        try:
            # NumPy leaves a file open that it opened itself and cannot read
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                self.content = archive[f"jpeg{suffix}"]
                self.offsets = archive[f"offsets{suffix}"]
                self.columns: dict[str, NDArray[Any]] = {
                    name: archive[f"{name}{suffix}"] for name in columns
                }
                self.extras: dict[str, NDArray[Any]] = {name: archive[name] for name in extras}
            lengths = {name: len(column) for name, column in self.columns.items()}
            if not len(self) or set(lengths.values()) != {len(self)}:
                raise ValueError(f"{len(self)} images, {lengths}")
        except UNREADABLE as error:
            raise self._corrupt(error) from error

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def images(self, indices: NDArray[np.int64], *, size: int) -> NDArray[np.uint8]:
        """Decode some images, resized to a square: ``(n, size, size, 3)``."""
        try:
            return decode_jpegs(self.content, self.offsets, indices, size=size)
        except UNREADABLE as error:
            raise self._corrupt(error) from error

    def _corrupt(self, error: Exception) -> DatasetCorruptError:
        return DatasetCorruptError(
            f"Expected {self.path} to hold images as JPEG, one array of them and a row of each "
            f"column for every image, but it is truncated or damaged ({error}). Copy it anew."
        )


def unpickle(path: Path) -> Any:
    """Read arrays and plain values from a pickle; a class or function in it is an error.

    Raises:
        Exception: A damaged or foreign pickle may raise any exception.
    """
    with path.open("rb") as file:
        return _ArrayUnpickler(file, encoding="latin1").load()  # as Python 2 wrote arrays


def read_pickled_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read a pickled dictionary of arrays; anything else in it is an error.

    Raises:
        DatasetCorruptError: The file holds something else or cannot be read.
    """
    try:
        content = unpickle(path)
    except Exception as error:  # a damaged pickle may raise any exception
        raise DatasetCorruptError(
            f"Expected {path} to be a pickled dictionary of arrays, but got: {error}. Copy it anew."
        ) from error
    if not isinstance(content, dict) or not all(
        isinstance(key, str) and isinstance(value, np.ndarray) for key, value in content.items()
    ):
        raise DatasetCorruptError(
            f"Expected {path} to be a pickled dictionary of arrays by name, but got "
            f"{type(content).__name__}."
        )
    return content


class _ArrayUnpickler(pickle.Unpickler):
    """An unpickler that can build NumPy arrays only, so that no foreign code runs."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in _KNOWN:
            return _KNOWN[name]
        if (module, name) == ("_codecs", "encode"):  # how old pickles write bytes
            return codecs.encode
        raise pickle.UnpicklingError(f"it wants {module}.{name}, which is no part of an array")
