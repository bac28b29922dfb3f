"""SVHN: photographs of house numbers without masks."""

from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.archives import JpegArchive
from rightreasons.datasets.images.pixels import PixelPart, pixel_splits
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, MissingExtraError

__all__ = ["read_svhn", "svhn"]

SHAPE = (3, 32, 32)
CARD = Card(
    name="svhn",
    description="House numbers of 32×32 pixels, one digit in the middle.",
    source="SVHN, Y. Netzer et al. 2011, from Google Street View",
    licence="non-commercial use",
    shortcut="none known",
    classes=tuple(str(digit) for digit in range(10)),
    shape=SHAPE,
)
ARCHIVE = "svhn_32.npz"
FILES = ("train_32x32.mat", "test_32x32.mat")


def svhn(
    data_dir: str | PathLike[str],
    *,
    seed: int = 0,
    subset: int | None = None,
    validation: int = 5000,
    flip: bool = False,
    crop: int = 0,
) -> Splits:
    """SVHN: digits of house numbers; no masks, no groups.

    73,257 training and 26,032 test images, ``(N, 3, 32, 32)`` in [0, 1], not normalised: an
    epsilon has these units. They are kept in memory in 8 bits. The label is the digit; the files
    write 10 for 0.

    Args:
        data_dir: Folder with SVHN, as in `read_svhn`.
        seed: Random seed for the validation split, the subset, the flips and the crops.
        subset: Number of the other images to train on, stratified by class; None for all. A
            smaller subset is part of a larger one.
        validation: Number of training images to hold out, stratified by class; 0 for none.
        flip: Whether to mirror training images at random, as in `Augmented`. Mirrored digits may
            look like others.
        crop: Largest random shift of training images in pixels, as in `Augmented`.

    Raises:
        DatasetNotFoundError: SVHN is not in ``data_dir``.
        DatasetCorruptError: A file cannot be read.
        MissingExtraError: SciPy, which reads the files, is not installed.

    References:
        netzer2011reading
    """
    return pixel_splits(
        lambda: read_svhn(data_dir),
        CARD,
        seed=seed,
        subset=subset,
        validation=validation,
        flip=flip,
        crop=crop,
    )


def read_svhn(data_dir: str | PathLike[str]) -> tuple[PixelPart, PixelPart]:
    """Read the cropped digits: ``train_32x32.mat`` and ``test_32x32.mat``.

    If there are no such files, ``svhn_32.npz`` is read: 20,000 and 10,000 of the digits, cut from
    the full pictures anew and kept as JPEG.

    Args:
        data_dir: The folder; ``svhn`` below it is searched too.

    Returns:
        The training and the test part.
    """
    root = Path(data_dir).expanduser()
    for folder in (root, root / "svhn"):
        paths = [folder / name for name in FILES]
        if all(path.is_file() for path in paths):
            train, test = (_read(path) for path in paths)
            return train, test
        if (folder / ARCHIVE).is_file():
            train, test = (_read_archive(folder / ARCHIVE, part) for part in ("train", "test"))
            return train, test
    raise DatasetNotFoundError(
        f"Expected SVHN in {root}, but found no {' and '.join(FILES)} there or in its folder svhn, "
        f"and no {ARCHIVE}. Put the files of the cropped digits (format 2) there."
    )


def _read(path: Path) -> PixelPart:
    try:
        from scipy.io import loadmat  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("svhn", "data") from error
    try:
        content = loadmat(path, variable_names=["X", "y"])
        pixels = content["X"].transpose(3, 2, 0, 1)  # (H, W, C, N) -> (N, C, H, W)
        digits = content["y"].reshape(-1).astype(np.int64)
        fits = pixels.shape == (len(digits), *SHAPE) and len(digits) > 0
        if not fits or pixels.dtype != np.uint8 or not np.isin(digits, np.arange(1, 11)).all():
            raise ValueError(f"{pixels.dtype} pixels {pixels.shape}, labels {digits.shape}")
    except Exception as error:  # a damaged file may raise any exception
        raise DatasetCorruptError(
            f"Expected {path} to hold SVHN, but it is truncated or damaged ({error}). Copy it anew."
        ) from error
    pixels = np.ascontiguousarray(pixels)
    return PixelPart(digits % 10, lambda indices: pixels[indices])


def _read_archive(path: Path, part: str) -> PixelPart:
    archive = JpegArchive(path, columns=["y"], suffix=f"_{part}")
    digits = archive.columns["y"].astype(np.int64)

    def images(indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        pixels = archive.images(indices, size=SHAPE[1])
        return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))

    return PixelPart(digits, images)
