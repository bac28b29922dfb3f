"""CIFAR-10: small photographs of ten kinds, without masks."""

from os import PathLike

from rightreasons.datasets.cifar import SHAPE, read_cifar10
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.pixel_splits import pixel_splits

__all__ = ["cifar10"]

CARD = Card(
    name="cifar10",
    description="Photographs of 32×32 pixels, ten classes.",
    source="CIFAR-10, A. Krizhevsky 2009, from the 80 million tiny images",
    licence="none stated",
    shortcut="none known",
    classes=(
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ),
    shape=SHAPE,
)


def cifar10(
    data_dir: str | PathLike[str],
    *,
    seed: int = 0,
    subset: int | None = None,
    validation: int = 5000,
    flip: bool = False,
    crop: int = 0,
) -> Splits:
    """CIFAR-10: photographs of ten kinds; no masks, no groups.

    50,000 training and 10,000 test images, ``(N, 3, 32, 32)`` in [0, 1], not normalised: an
    epsilon is in these units. They are kept in memory in 8 bits.

    Args:
        data_dir: Where CIFAR-10 lies, see `read_cifar10`.
        seed: Of the validation split, the subset, and the flips and crops.
        subset: How many of the remaining training images to use, stratified by class; a smaller
            subset is part of a larger one. None for all.
        validation: How many of the training images to hold out, stratified by class; 0 for none.
        flip: Mirror training images at random, see `Augmented`.
        crop: Move training images by up to so many pixels at random, see `Augmented`.

    Raises:
        DatasetNotFoundError: CIFAR-10 is not in ``data_dir``.
        DatasetCorruptError: It cannot be read.

    References:
        krizhevsky2009learning
    """
    return pixel_splits(
        lambda: read_cifar10(data_dir),
        CARD,
        seed=seed,
        subset=subset,
        validation=validation,
        flip=flip,
        crop=crop,
    )
