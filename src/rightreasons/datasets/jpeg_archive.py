"""Photographs as JPEG, one after the other in an array of an ``.npz`` file."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from rightreasons.datasets.parallel import in_parallel
from rightreasons.errors import DatasetCorruptError

__all__ = ["JpegArchive"]

WORKERS = 2
CHUNK = 200
UNREADABLE = (
    EOFError,
    KeyError,
    OSError,
    SyntaxError,
    TypeError,
    ValueError,
    UnidentifiedImageError,
    zipfile.BadZipFile,
    zlib.error,
)


class JpegArchive:
    """The arrays ``jpeg`` and ``offsets``, image n being ``jpeg[offsets[n]:offsets[n + 1]]``.

    Args:
        path: The file.
        columns: Names of arrays with an entry for each image.
        extras: Names of other arrays.

    Raises:
        DatasetCorruptError: It cannot be read, or an array is missing or of another length.
    """

    def __init__(self, path: Path, *, columns: Sequence[str], extras: Sequence[str] = ()) -> None:
        self.path = path
        try:
            # NumPy leaves a file open that it opened itself and cannot read
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                self.content, self.offsets = archive["jpeg"], archive["offsets"]
                self.columns: dict[str, NDArray[Any]] = {name: archive[name] for name in columns}
                self.extras: dict[str, NDArray[Any]] = {name: archive[name] for name in extras}
            lengths = {name: len(column) for name, column in self.columns.items()}
            if not len(self) or set(lengths.values()) != {len(self)}:
                raise ValueError(f"{len(self)} images, {lengths}")
        except UNREADABLE as error:
            raise self._corrupt(error) from error

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def images(self, places: NDArray[np.int64], *, size: int) -> NDArray[np.uint8]:
        """Decode some images, resized to a square: ``(n, size, size, 3)``."""
        pixels = np.empty((len(places), size, size, 3), dtype=np.uint8)

        def decode(chunk: int) -> None:  # one image is too little work for a thread
            for number in range(chunk * CHUNK, min((chunk + 1) * CHUNK, len(places))):
                start, stop = self.offsets[places[number]], self.offsets[places[number] + 1]
                with Image.open(io.BytesIO(self.content[start:stop].tobytes())) as image:
                    colours = image.convert("RGB")
                    if colours.size != (size, size):
                        colours = colours.resize((size, size), Image.Resampling.BICUBIC)
                    pixels[number] = np.asarray(colours)

        num_chunks = -(-len(places) // CHUNK)
        try:
            in_parallel(decode, num_chunks, workers=WORKERS, description="decoding images")
        except UNREADABLE as error:
            raise self._corrupt(error) from error
        return pixels

    def _corrupt(self, error: Exception) -> DatasetCorruptError:
        return DatasetCorruptError(
            f"Expected {self.path} to hold images as JPEG, one array of them and a row of each "
            f"column for every image, but it is truncated or damaged ({error}). Copy it anew."
        )
