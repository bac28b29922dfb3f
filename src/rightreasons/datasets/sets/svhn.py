"""SVHN: digits of house numbers, photographed from the street, without masks."""

from os import PathLike
from pathlib import Path

import numpy as np

from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.pixels import PixelPart, pixel_splits
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, MissingExtraError

__all__ = ["read_svhn", "svhn"]

FILES = ("train_32x32.mat", "test_32x32.mat")
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
    epsilon is in these units. They are kept in memory in 8 bits. The label is the digit; the files
    write 10 for 0.

    Args:
        data_dir: Where SVHN lies, see `read_svhn`.
        seed: Of the validation split, the subset, and the flips and crops.
        subset: How many of the remaining training images to use, stratified by class; a smaller
            subset is part of a larger one. None for all.
        validation: How many of the training images to hold out, stratified by class; 0 for none.
        flip: Mirror training images at random, see `Augmented`; digits are not what they were.
        crop: Move training images by up to so many pixels at random, see `Augmented`.

    Raises:
        DatasetNotFoundError: SVHN is not in ``data_dir``.
        DatasetCorruptError: It cannot be read.
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

    Args:
        data_dir: Where to look: in the folder itself and in ``svhn``.

    Returns:
        The training and the test part.
    """
    root = Path(data_dir).expanduser()
    for folder in (root, root / "svhn"):
        paths = [folder / name for name in FILES]
        if all(path.is_file() for path in paths):
            train, test = (_read(path) for path in paths)
            return train, test
    raise DatasetNotFoundError(
        f"Expected SVHN in {root}, but found no {' and '.join(FILES)} there or in its folder svhn. "
        "Put the files of the cropped digits (format 2) there."
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
    except Exception as error:  # a damaged file may raise anything
        raise DatasetCorruptError(
            f"Expected {path} to hold SVHN, but it is truncated or damaged ({error}). Copy it anew."
        ) from error
    pixels = np.ascontiguousarray(pixels)
    return PixelPart(digits % 10, lambda places: pixels[places])
