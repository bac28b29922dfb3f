"""Images with more than 8 bits a channel: 16-bit and floating-point pictures, arrays, DICOM.

Values become numbers in [0, 1] by one rule:

- ``value_range`` = (low, high): low and below become 0, high and above become 1;
- else unsigned 8-bit and 16-bit integers are divided by 255 and 65535;
- else floating-point values must lie in [0, 1] already;
- else DICOM's first window decides or, without one, all values that its bits can store;
- anything else is refused, and ``value_range`` is the remedy.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rightreasons.errors import DatasetCorruptError, MissingExtraError

__all__ = [
    "ARRAY_SUFFIXES",
    "Range",
    "array_size",
    "combine_bytes",
    "convert_channels",
    "read_array",
    "read_tiff",
    "resize_array",
    "scale_values",
]

Range = tuple[float, float]
DICOM_SUFFIXES = (".dcm", ".dicom")
ARRAY_SUFFIXES = (".npy", *DICOM_SUFFIXES)
GREY = (0.299, 0.587, 0.114)  # as Pillow converts colours


def array_size(path: Path) -> tuple[int, int]:
    """Height and width of an array or a DICOM file, from its header alone."""
    if path.suffix.lower() == ".npy":
        height, width = _open_array(path).shape[:2]
    else:
        header = _open_dicom(path, header_only=True)
        height, width = int(header.Rows), int(header.Columns)
    return int(height), int(width)


def read_array(path: Path) -> tuple[NDArray[Any], Range | None]:
    """Read an array or a DICOM file ``(H, W)`` or ``(H, W, C)``.

    Returns:
        The values, and the range that becomes 0 to 1; None if the type of the values says it.
    """
    if path.suffix.lower() == ".npy":
        return np.array(_open_array(path)), None
    return _read_dicom(path)


def scale_values(values: NDArray[Any], value_range: Range | None) -> NDArray[np.float32]:
    """Scale values to [0, 1] by the rule of this module.

    Example:
        >>> scale_values(np.array([[0, 65535]], dtype=np.uint16), None)
        array([[0., 1.]], dtype=float32)
        >>> scale_values(np.array([[-5.0, 0.0, 20.0]]), (0, 10))
        array([[0., 0., 1.]], dtype=float32)
    """
    if values.dtype.kind not in "buif":
        raise DatasetCorruptError(f"has values of the type {values.dtype}, expected numbers")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise DatasetCorruptError("has values that are not finite")
    if value_range is not None:
        low, high = value_range
        scaled = (values.astype(np.float64) - low) / (high - low)
        return np.clip(scaled, 0, 1).astype(np.float32)
    if values.dtype in (np.uint8, np.uint16):
        return (values / np.float32(np.iinfo(values.dtype).max)).astype(np.float32)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    if values.dtype.kind != "b" and not (values.dtype.kind == "f" and 0 <= low <= high <= 1):
        raise DatasetCorruptError(
            f"has {values.dtype} values from {low:g} to {high:g}, expected 0 to 1 or unsigned "
            "integers of 8 or 16 bits; say what is black and white: value_range=(low, high), "
            "--set-data value_range=[low,high]"
        )
    return values.astype(np.float32)


def convert_channels(values: NDArray[np.float32], channels: int) -> NDArray[np.float32]:
    """Convert ``(H, W)`` or ``(H, W, C)`` to ``(channels, H, W)``; transparency is ignored."""
    colours = values[..., None] if values.ndim == 2 else values[..., :3]
    if values.ndim == 3 and values.shape[2] == 2:
        colours = values[..., :1]
    if colours.shape[2] == 3 and channels == 1:
        colours = (colours @ np.asarray(GREY, dtype=np.float32))[..., None]
    return np.broadcast_to(colours.transpose(2, 0, 1), (channels, *values.shape[:2]))


def resize_array(planes: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
    """Resize planes ``(C, H, W)`` bilinearly, as 8-bit images are resized."""
    if planes.shape[1:] == size:
        return planes.copy()  # a broadcast one cannot be written
    resized = [
        Image.fromarray(np.ascontiguousarray(plane)).resize(
            (size[1], size[0]), Image.Resampling.BILINEAR
        )
        for plane in planes
    ]
    return np.stack([np.asarray(plane, dtype=np.float32) for plane in resized])


def combine_bytes(path: Path, image: Image.Image) -> NDArray[np.uint16]:
    """Read all 16 bits of a colour PNG, of which Pillow gives the high bytes only.

    The low bytes come from a second reading that takes the bytes for the other order.
    """
    high = np.asarray(image).astype(np.uint16)
    with Image.open(path) as again:
        tiles = getattr(again, "tile", [])
        again.tile = [tile._replace(args=str(tile.args).replace(";16B", ";16L")) for tile in tiles]
        low = np.asarray(again)
    both: NDArray[np.uint16] = high * np.uint16(256) + low
    return both


def read_tiff(path: Path) -> NDArray[Any]:
    """Read a TIFF file that Pillow does not read in full."""
    try:
        import tifffile
    except ImportError:
        raise MissingExtraError(f"Reading {path.name}, a TIFF of this kind,", "formats") from None
    try:
        with tifffile.TiffFile(path) as file:
            page = file.pages.first
            _check_shape(page.shape)
            return np.asarray(page.asarray())
    except DatasetCorruptError:
        raise
    except Exception as error:  # the content of a file may raise anything
        raise DatasetCorruptError(f"cannot be read ({error})") from error


def _check_shape(shape: tuple[int, ...]) -> None:
    known = len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 2, 3, 4))
    if not known or 0 in shape:
        raise DatasetCorruptError(
            f"has the shape {shape}, expected (height, width) or (height, width, channels) with "
            "1 to 4 channels"
        )
    limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
    if limit and shape[0] * shape[1] > limit:
        raise DatasetCorruptError(
            f"cannot be read ({shape[0]}x{shape[1]} pixels exceed the limit of {limit}, could be "
            "a decompression bomb)"
        )


def _open_array(path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        shape = array.shape
    except FileNotFoundError:
        raise DatasetCorruptError("no such file") from None
    except Exception as error:  # the content of a file may raise anything
        raise DatasetCorruptError(f"cannot be read ({error})") from error
    _check_shape(shape)
    return array


def _open_dicom(path: Path, *, header_only: bool) -> Any:
    try:
        import pydicom
    except ImportError:
        raise MissingExtraError(f"Reading {path.name}, a DICOM file,", "formats") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks on fields that are not read here
            content = pydicom.dcmread(path, stop_before_pixels=header_only)
        _check_shape((int(content.Rows), int(content.Columns)))
    except DatasetCorruptError:
        raise
    except FileNotFoundError:
        raise DatasetCorruptError("no such file") from None
    except Exception as error:  # the content of a file may raise anything
        raise DatasetCorruptError(f"cannot be read as DICOM ({error})") from error
    return content


def _read_dicom(path: Path) -> tuple[NDArray[Any], Range | None]:
    content = _open_dicom(path, header_only=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pixels = content.pixel_array
        _check_shape(pixels.shape)
        kind = str(content.PhotometricInterpretation)
        if kind not in ("MONOCHROME1", "MONOCHROME2", "RGB"):
            raise DatasetCorruptError(f"is a DICOM file with {kind} pixels; convert it to RGB")
        slope, offset = _first(content, "RescaleSlope", 1.0), _first(content, "RescaleIntercept", 0)
        centre, width = _first(content, "WindowCenter", None), _first(content, "WindowWidth", None)
        if kind == "RGB":
            return pixels, None
        values = pixels.astype(np.float64) * slope + offset
        if centre is not None and width is not None and width > 1:
            middle, half = centre - 0.5, (width - 1) / 2  # part 3 of the standard, C.11.2.1.2
            low, high = middle - half, middle + half
        else:
            bits, signed = int(content.BitsStored), bool(content.PixelRepresentation)
            stored = np.array(
                [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] if signed else [0, 2**bits - 1]
            )
            low, high = (stored * slope + offset).tolist()
        return (-values, (-high, -low)) if kind == "MONOCHROME1" else (values, (low, high))
    except DatasetCorruptError:
        raise
    except Exception as error:  # the content of a file may raise anything
        raise DatasetCorruptError(f"cannot be read as DICOM ({error})") from error


def _first(content: Any, name: str, default: float | None) -> Any:
    """The first number of a field, which may hold several."""
    value = content.get(name)
    if value is None or value == "":
        return default
    return float(value[0] if hasattr(value, "__len__") and not isinstance(value, str) else value)
