"""Images and masks read from files."""

from __future__ import annotations

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
from rightreasons.datasets.images.deep import (
    ARRAY_SUFFIXES,
    Range,
    array_size,
    combine_bytes,
    convert_channels,
    read_array,
    read_tiff,
    resize_array,
    scale_values,
)
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = [
    "SIDEWAYS",
    "TURNS",
    "UNREADABLE",
    "check_data_dir",
    "image_size",
    "list_images",
    "nearest_indices",
    "read_image",
    "read_mask",
    "read_pixels",
    "scale_pixels",
    "unpack_masks",
]

UNREADABLE = (  # what NumPy, Pillow and the archive modules raise for a damaged file
    EOFError,
    KeyError,
    OSError,
    SyntaxError,  # Pillow: a damaged PNG chunk
    TypeError,
    ValueError,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,  # where warnings are errors
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
SUFFIXES = (".jpeg", ".jpg", ".png")
ORIENTATION_TAG = 0x0112
SIDEWAYS = (5, 6, 7, 8)  # orientations in which the camera stored width and height exchanged
DEEP_COLOURS = re.compile(r"\b(RGB|RGBA|RGBX|LA|CMYK);(16|32)[BLNF]*")
DEEP_MODES = ("I", "I;16", "I;16B", "I;16L", "F")
TURNS = {  # orientation tag -> what makes the image upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
TIFF_SUFFIXES = (".tif", ".tiff")
TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


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
    (height, width), orientation = stored_size(path)
    return (width, height) if orientation in SIDEWAYS else (height, width)


def stored_size(path: Path) -> tuple[tuple[int, int], int]:
    """Height and width of the image as it is stored, and its orientation tag; 1 is upright."""
    if path.suffix.lower() in ARRAY_SUFFIXES:
        return array_size(path), 1
    if _needs_tifffile(path):
        return read_tiff(path).shape[:2], 1
    with _open_image(path) as image:
        width, height = image.size
        return (height, width), _orientation(image)


def read_image(
    path: Path, *, size: tuple[int, int], channels: int, value_range: Range | None = None
) -> Tensor:
    """Read an image in [0, 1], shape ``(C, H, W)``; see `read_pixels`.

    Args:
        path: The file.
        size: Height and width of the result.
        channels: 3 for colour, 1 for grey.
        value_range: The values that become 0 and 1, for images with more than 8 bits a channel.

    Raises:
        DatasetCorruptError: The file cannot be read; the message is the bare reason.
    """
    pixels = read_pixels(path, size=size, channels=channels, value_range=value_range)
    return scale_pixels(pixels[None])[0]


def scale_pixels(pixels: Tensor) -> Tensor:
    """Scale what `read_pixels` gives, ``(N, H, W, C)`` in 8 bits, to ``(N, C, H, W)`` in [0, 1]."""
    if pixels.dtype != torch.uint8:
        return pixels
    return pixels.movedim(-1, 1).contiguous().float().div_(255)


def read_pixels(
    path: Path, *, size: tuple[int, int], channels: int, value_range: Range | None = None
) -> Tensor:
    """Read an image: 8-bit pixels ``(H, W, C)``, or more bits scaled to [0, 1], ``(C, H, W)``.

    A batch of 8-bit pixels is scaled at once, which is faster for small images. Photographs are
    turned upright by their orientation tag, transparency is ignored, and another size is resampled
    bilinearly. More than 8 bits a channel are scaled by the rule of `deep`.

    Args:
        path: A file in any format Pillow reads, an array (``.npy``), or DICOM (``.dcm``).
        size: Height and width of the result.
        channels: 3 for colour, 1 for grey.
        value_range: The values that become 0 and 1, for images with more than 8 bits a channel.

    Raises:
        DatasetCorruptError: The file cannot be read; the message is the bare reason.
    """
    suffix = path.suffix.lower()
    if suffix in ARRAY_SUFFIXES:
        values, usual = read_array(path)
        return _deep_tensor(values, value_range or usual, size, channels)
    if suffix in TIFF_SUFFIXES and _needs_tifffile(path):
        return _deep_tensor(read_tiff(path), value_range, size, channels)
    with _open_image(path) as image:
        deep = _deep_pixels(image)
        if deep is not None:
            return _deep_tensor(_deep_values(path, image, deep), value_range, size, channels)
        upright = _turn_upright(image)
        if "transparency" in upright.info:
            upright = upright.convert("RGBA")
        mode = "RGB" if channels == 3 else "L"
        upright = upright if upright.mode == mode else upright.convert(mode)
        content = bytearray(_resize(upright, size, Image.Resampling.BILINEAR).tobytes())
    return torch.frombuffer(content, dtype=torch.uint8).view(*size, channels)


def _deep_tensor(
    values: NDArray[Any], value_range: Range | None, size: tuple[int, int], channels: int
) -> Tensor:
    planes = convert_channels(scale_values(values, value_range), channels)
    return torch.from_numpy(resize_array(planes, size))


def _deep_values(path: Path, image: Image.Image, deep: str) -> NDArray[Any]:
    """All bits of an image with deep pixels, turned upright."""
    if ";" not in deep or deep in DEEP_MODES:
        values = np.asarray(_turn_upright(image))
        return values.astype(np.uint16) if image.format == "PNG" else values
    if image.format != "PNG" or not deep.startswith("RGB"):
        raise DatasetCorruptError(f"has {deep} pixels, which are not read; convert it to RGB")
    if _orientation(image) != 1:
        raise DatasetCorruptError(f"has {deep} pixels and an orientation tag; turn it upright")
    return combine_bytes(path, image)


def _needs_tifffile(path: Path) -> bool:
    """Whether a TIFF has colours of more than 8 bits, which Pillow cuts or cannot open."""
    if path.suffix.lower() not in TIFF_SUFFIXES or not path.is_file():
        return False
    try:
        with Image.open(path) as image:
            deep = _deep_pixels(image)
            return deep is not None and deep not in DEEP_MODES
    except UnidentifiedImageError:
        return path.read_bytes()[:4] in TIFF_STARTS
    except UNREADABLE:
        return False


def read_mask(path: Path, *, size: tuple[int, int], turn: int = 1) -> Tensor:
    """Read a mask, white as 1, black and transparent as 0, shape ``(1, H, W)``.

    A file with one value beside 0 is black and white, whatever that value is (1 and 255 are both
    common). A file with more values, up to white, is a soft mask and has 8 bits a channel. Another
    size is sampled by the nearest pixel, so no new values appear.

    Args:
        path: A file in any format Pillow reads, or an array; PNG stores masks without loss.
        size: Height and width of the result.
        turn: Orientation tag of the image, for a mask that is stored as the image is; else 1.

    Raises:
        DatasetCorruptError: The file cannot be read; the message is the bare reason.
    """
    if path.suffix.lower() in ARRAY_SUFFIXES:
        values, _ = read_array(path)
        black_and_white = np.asarray(_black_and_white(values, str(values.dtype)))
        return _mask_tensor(_turn(Image.fromarray(black_and_white), turn), size)
    with _open_image(path) as image:
        deep = _deep_pixels(image)
        upright = _turn(_turn_upright(image), turn)
        if deep is not None:
            upright = _black_and_white(np.asarray(upright), deep)
        if upright.has_transparency_data:
            upright = upright.convert("RGBA")
            upright = Image.alpha_composite(Image.new("RGBA", upright.size, "black"), upright)
        return _mask_tensor(upright, size)


def _mask_tensor(image: Image.Image, size: tuple[int, int]) -> Tensor:
    pixels = np.asarray(image.convert("L"))
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


def _black_and_white(values: NDArray[Any], deep: str) -> Image.Image:
    """A mask of deep pixels in 8 bits, if it has one value beside 0."""
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


def _turn(image: Image.Image, orientation: int) -> Image.Image:
    """Turn an image upright by the orientation tag of another one."""
    return image.transpose(TURNS[orientation]) if orientation in TURNS else image


def _turn_upright(image: Image.Image) -> Image.Image:
    turned = _orientation(image) != 1
    image.load()
    return ImageOps.exif_transpose(image) if turned else image


def _resize(image: Image.Image, size: tuple[int, int], how: Image.Resampling) -> Image.Image:
    height, width = size
    return image if image.size == (width, height) else image.resize((width, height), how)
