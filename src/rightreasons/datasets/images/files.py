"""Images and masks read from files: pictures, archives of JPEG pictures, pickled arrays."""

from __future__ import annotations

import codecs
import io
import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from rightreasons.datasets.parallel import map_parallel
from rightreasons.errors import DatasetCorruptError

__all__ = [
    "JpegArchive",
    "image_size",
    "read_image",
    "read_mask",
    "read_pickled_arrays",
    "unpickled",
]

ORIENTATION_TAG = 0x0112
SIDEWAYS = (5, 6, 7, 8)  # orientations in which a camera stored width and height exchanged
DEEP_MODES = ("I", "I;16", "I;16B", "I;16L", "F")
UNREADABLE = (
    EOFError,
    OSError,
    SyntaxError,  # Pillow's word for a damaged PNG chunk
    ValueError,
    Image.DecompressionBombError,
    struct.error,
    zlib.error,
)


def image_size(path: Path) -> tuple[int, int]:
    """Height and width as a viewer shows the image, from the header alone."""
    with _opened(path) as image:
        width, height = image.size
        sideways = _orientation(image) in SIDEWAYS
    return (width, height) if sideways else (height, width)


def read_image(path: Path, *, size: tuple[int, int], channels: int) -> Tensor:
    """Read an image as it is shown, in [0, 1], shape ``(C, H, W)``.

    Photographs are turned upright by their orientation tag, transparency is ignored, and another
    size is resampled bilinearly.

    Args:
        path: Any format Pillow reads, with 8 bits a channel or fewer.
        size: Height and width of the result.
        channels: 3 for colour, 1 for grey.

    Raises:
        DatasetCorruptError: It cannot be read; the message is the bare reason.
    """
    with _opened(path) as image:
        if image.mode in DEEP_MODES:
            raise DatasetCorruptError(
                f"has {image.mode} pixels, expected 8 bits a channel; convert it"
            )
        upright = _upright(image)
        if "transparency" in upright.info:
            upright = upright.convert("RGBA")
        upright = upright.convert("RGB" if channels == 3 else "L")
        pixels = np.asarray(_resized(upright, size, Image.Resampling.BILINEAR), dtype=np.float32)
    pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return torch.from_numpy(np.ascontiguousarray(pixels)).div_(255)


def read_mask(path: Path, *, size: tuple[int, int]) -> Tensor:
    """Read a mask, white as 1, black and transparent as 0, shape ``(1, H, W)``.

    A file with one value beside 0 is black and white, whatever that value is (1 and 255 are both
    common); one with more values up to white is a soft mask. Another size is sampled by the
    nearest pixel, so no new values appear.

    Args:
        path: Any format Pillow reads; PNG keeps masks as they were drawn.
        size: Height and width of the result.

    Raises:
        DatasetCorruptError: It cannot be read; the message is the bare reason.
    """
    with _opened(path) as image:
        upright = _upright(image)
        if upright.has_transparency_data:
            upright = upright.convert("RGBA")
            upright = Image.alpha_composite(Image.new("RGBA", upright.size, "black"), upright)
        pixels = np.asarray(upright.convert("L"))
        values = np.flatnonzero(np.bincount(pixels.ravel(), minlength=256)[1:]) + 1
        if len(values) > 1 and values[-1] < 128:
            raise DatasetCorruptError(
                f"is a mask with values {values[0]} to {values[-1]}, which look like class "
                "numbers; expected black and white, so choose the class and save it as 0 and 255"
            )
        white = 255 if len(values) != 1 else int(values[0])
        scaled = _resized(Image.fromarray(pixels), size, Image.Resampling.NEAREST)
    return torch.from_numpy(np.asarray(scaled, dtype=np.float32) / white).unsqueeze(0)


def _orientation(image: Image.Image) -> int:
    """The orientation tag, as far as the header tells it: asking further decodes a PNG."""
    return int(image.getexif().get(ORIENTATION_TAG, 1)) if "exif" in image.info else 1


def _upright(image: Image.Image) -> Image.Image:
    turned = _orientation(image) != 1
    image.load()
    return ImageOps.exif_transpose(image) if turned else image


def _resized(image: Image.Image, size: tuple[int, int], how: Image.Resampling) -> Image.Image:
    height, width = size
    return image if image.size == (width, height) else image.resize((width, height), how)


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Open an image; whatever Pillow raises for a bad file becomes a reason."""
    try:
        with Image.open(path) as image:
            yield image
    except DatasetCorruptError:
        raise
    except FileNotFoundError:
        raise DatasetCorruptError("no such file") from None
    except UnidentifiedImageError:
        raise DatasetCorruptError("is not an image Pillow can read") from None
    except UNREADABLE as error:
        raise DatasetCorruptError(f"cannot be read ({error})") from error


WORKERS = 2
CHUNK = 200
UNREADABLE_ARCHIVE = (
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
        except UNREADABLE_ARCHIVE as error:
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
            map_parallel(decode, num_chunks, workers=WORKERS, description="decoding images")
        except UNREADABLE_ARCHIVE as error:
            raise self._corrupt(error) from error
        return pixels

    def _corrupt(self, error: Exception) -> DatasetCorruptError:
        return DatasetCorruptError(
            f"Expected {self.path} to hold images as JPEG, one array of them and a row of each "
            f"column for every image, but it is truncated or damaged ({error}). Copy it anew."
        )


_array = np.zeros(1)
_KNOWN: dict[str, Any] = {  # all that a pickled array calls
    "ndarray": np.ndarray,
    "dtype": np.dtype,
    "_reconstruct": _array.__reduce_ex__(2)[0],
    "_frombuffer": _array.__reduce_ex__(5)[0],
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in _KNOWN:
            return _KNOWN[name]
        if (module, name) == ("_codecs", "encode"):  # how old pickles write bytes
            return codecs.encode
        raise pickle.UnpicklingError(f"it wants {module}.{name}, which is no part of an array")


def unpickled(path: Path) -> Any:
    """Whatever arrays and plain values a pickle holds; a class or function in it is an error.

    Raises:
        Exception: A damaged or foreign pickle may raise anything.
    """
    with path.open("rb") as file:
        return _ArrayUnpickler(file, encoding="latin1").load()  # as Python 2 wrote arrays


def read_pickled_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read a pickled dictionary of arrays; anything else in it is refused.

    Raises:
        DatasetCorruptError: It is something else or cannot be read.
    """
    try:
        content = unpickled(path)
    except Exception as error:  # a damaged pickle may raise anything
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
