"""CIFAR-100: small photographs of a hundred kinds, without masks."""

from os import PathLike

from rightreasons.datasets.cifar import SHAPE, read_cifar100
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.pixel_splits import pixel_splits

__all__ = ["cifar100"]

NAMES = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
    butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch
    crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo
    keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
    mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain
    plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
    skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone
    television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CARD = Card(
    name="cifar100",
    description="Photographs of 32×32 pixels, a hundred classes.",
    source="CIFAR-100, A. Krizhevsky 2009, from the 80 million tiny images",
    licence="none stated",
    shortcut="none known",
    classes=tuple(NAMES.split()),
    shape=SHAPE,
)


def cifar100(
    data_dir: str | PathLike[str],
    *,
    seed: int = 0,
    subset: int | None = None,
    validation: int = 5000,
    flip: bool = False,
    crop: int = 0,
) -> Splits:
    """CIFAR-100: photographs of a hundred kinds; no masks, no groups.

    50,000 training and 10,000 test images, ``(N, 3, 32, 32)`` in [0, 1], not normalised: an
    epsilon is in these units. They are kept in memory in 8 bits. Labels are the fine ones.

    Args:
        data_dir: Where CIFAR-100 lies, see `read_cifar100`.
        seed: Of the validation split, the subset, and the flips and crops.
        subset: How many of the remaining training images to use, stratified by class; a smaller
            subset is part of a larger one. None for all.
        validation: How many of the training images to hold out, stratified by class; 0 for none.
        flip: Mirror training images at random, see `Augmented`.
        crop: Move training images by up to so many pixels at random, see `Augmented`.

    Raises:
        DatasetNotFoundError: CIFAR-100 is not in ``data_dir``.
        DatasetCorruptError: It cannot be read.

    References:
        krizhevsky2009learning
    """
    return pixel_splits(
        lambda: read_cifar100(data_dir),
        CARD,
        seed=seed,
        subset=subset,
        validation=validation,
        flip=flip,
        crop=crop,
    )
