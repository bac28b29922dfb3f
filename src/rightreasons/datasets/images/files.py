"""Images and masks read from files: pictures, archives of JPEG pictures, pickled arrays."""

from __future__ import annotations

import codecs
import io
import pickle
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from rightreasons.core.files import check_file
from rightreasons.core.progress import map_parallel
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = [
    "UNREADABLE",
    "JpegArchive",
    "check_data_dir",
    "decode_jpegs",
    "image_size",
    "list_images",
    "nearest_indices",
    "read_image",
    "read_mask",
    "read_pickled_arrays",
    "unpack_masks",
    "unpickle",
]

UNREADABLE = (  # what NumPy, Pillow and the archive modules raise for a damaged file
    EOFError,
    KeyError,
    OSError,
    SyntaxError,  # Pillow: a damaged PNG chunk
    TypeError,
    ValueError,
    Image.DecompressionBombError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
SUFFIXES = (".jpeg", ".jpg", ".png")
ORIENTATION_TAG = 0x0112
SIDEWAYS = (5, 6, 7, 8)  # orientations in which the camera stored width and height exchanged
DEEP_COLOURS = re.compile(r"\b(RGB|RGBA|RGBX|LA|CMYK);(16|32)[BLNF]*")
DEEP_MODES = ("I", "I;16", "I;16B", "I;16L", "F")
WORKERS = 2
CHUNK = 200  # images decoded in one task: one image is too little work for a thread

_array = np.zeros(1)
_KNOWN: dict[str, Any] = {  # all functions that a pickled array calls
    "ndarray": np.ndarray,
    "dtype": np.dtype,
    "_reconstruct": _array.__reduce_ex__(2)[0],
    "_frombuffer": _array.__reduce_ex__(5)[0],
}


def check_data_dir(data_dir: str | PathLike[str]) -> Path:
    """Return the data folder as a path; a file in its place is an error."""
    root = Path(data_dir).expanduser()
    if root.is_file():
        raise DatasetNotFoundError(
            f"Expected `data_dir` to be a folder, but got the file {root}. Pass {root.parent}."
        )
    return root


def list_images(folder: Path, suffixes: Sequence[str] = SUFFIXES) -> list[Path]:
    """List the image files of a folder by name; an absent folder has none."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in suffixes)


def image_size(path: Path) -> tuple[int, int]:
    """Height and width of the upright image, read from the header alone."""
    with _open_image(path) as image:
        width, height = image.size
        sideways = _orientation(image) in SIDEWAYS
    return (width, height) if sideways else (height, width)


def read_image(path: Path, *, size: tuple[int, int], channels: int) -> Tensor:
    """Read an image in [0, 1], shape ``(C, H, W)``.

    Photographs are turned upright by their orientation tag, transparency is ignored, and another
    size is resampled bilinearly.

    Args:
        path: A file in any format Pillow reads, with 8 bits a channel or fewer.
        size: Height and width of the result.
        channels: 3 for colour, 1 for grey.

    Raises:
        DatasetCorruptError: The file cannot be read; the message is the bare reason.
    """
    with _open_image(path) as image:
        deep = _deep_pixels(image)
        if deep is not None:
            raise DatasetCorruptError(f"has {deep} pixels, expected 8 bits a channel; convert it")
        upright = _turn_upright(image)
        if "transparency" in upright.info:
            upright = upright.convert("RGBA")
        upright = upright.convert("RGB" if channels == 3 else "L")
        pixels = np.asarray(_resize(upright, size, Image.Resampling.BILINEAR), dtype=np.float32)
    pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return torch.from_numpy(np.ascontiguousarray(pixels)).div_(255)


def read_mask(path: Path, *, size: tuple[int, int]) -> Tensor:
    """Read a mask, white as 1, black and transparent as 0, shape ``(1, H, W)``.

    A file with one value beside 0 is black and white, whatever that value is (1 and 255 are both
    common). A file with more values, up to white, is a soft mask and has 8 bits a channel. Another
    size is sampled by the nearest pixel, so no new values appear.

    Args:
        path: A file in any format Pillow reads; PNG stores masks without loss.
        size: Height and width of the result.

    Raises:
        DatasetCorruptError: The file cannot be read; the message is the bare reason.
    """
    with _open_image(path) as image:
        deep = _deep_pixels(image)
        upright = _turn_upright(image)
        if deep is not None:
            upright = _black_and_white(upright, deep)
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
        scaled = _resize(Image.fromarray(pixels), size, Image.Resampling.NEAREST)
    return torch.from_numpy(np.asarray(scaled, dtype=np.float32) / white).unsqueeze(0)


def nearest_indices(length: int, size: int) -> NDArray[np.int64]:
    """For each of ``size`` pixels, the index of the nearest of ``length`` pixels."""
    return ((np.arange(size) + 0.5) * length / size).astype(np.int64)


def unpack_masks(bits: NDArray[np.uint8], *, size: int) -> NDArray[np.bool_]:
    """Unpack masks of one bit a pixel, sampled by the nearest pixel: ``(N, size, size)``.

    Args:
        bits: ``(N, side, side / 8)``, the pixels of each row packed into bytes.
        size: Side of the result.
    """
    whole = np.unpackbits(bits, axis=2).astype(bool)
    nearest = nearest_indices(whole.shape[1], size)
    masks: NDArray[np.bool_] = whole[:, nearest][:, :, nearest]
    return masks


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
                if resize:
                    colours = _resize(colours, (size, size), Image.Resampling.BICUBIC)
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


@contextmanager
def _open_image(path: Path) -> Iterator[Image.Image]:
    """Open an image; every exception of Pillow becomes a `DatasetCorruptError`."""
    try:
        check_file(path)
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


def _deep_pixels(image: Image.Image) -> str | None:
    """The kind of pixels with more than 8 bits a channel, which Pillow would cut; None for 8."""
    if image.mode in DEEP_MODES:
        return image.mode
    # Pillow reads 16-bit colours as 8-bit ones; only the stored form, such as RGB;16B, tells.
    stored = " ".join(str(tile[3]) for tile in getattr(image, "tile", []))
    found = DEEP_COLOURS.search(stored)
    return None if found is None else found.group()


def _black_and_white(image: Image.Image, deep: str) -> Image.Image:
    """A mask of deep pixels in 8 bits, if it has one value beside 0."""
    values = np.asarray(image)
    others = np.unique(values[values != 0]) if values.ndim == 2 else np.zeros(2)
    if len(others) > 1 or not np.all(others > 0):
        raise DatasetCorruptError(
            f"is a mask of {deep} pixels with several values, expected 8 bits a channel; save it "
            "with values from 0 to 255"
        )
    return Image.fromarray(np.where(values != 0, 255, 0).astype(np.uint8))


def _orientation(image: Image.Image) -> int:
    """The orientation tag of the header; without the check below a PNG would be decoded."""
    return int(image.getexif().get(ORIENTATION_TAG, 1)) if "exif" in image.info else 1


def _turn_upright(image: Image.Image) -> Image.Image:
    turned = _orientation(image) != 1
    image.load()
    return ImageOps.exif_transpose(image) if turned else image


def _resize(image: Image.Image, size: tuple[int, int], how: Image.Resampling) -> Image.Image:
    height, width = size
    return image if image.size == (width, height) else image.resize((width, height), how)
