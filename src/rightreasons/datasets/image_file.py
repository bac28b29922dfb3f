"""Reading one image or mask file: size, pixels, and a plain reason when it cannot be read."""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from rightreasons.errors import DatasetCorruptError

__all__ = ["image_size", "read_image", "read_mask"]

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
