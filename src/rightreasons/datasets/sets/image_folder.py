"""The user's own images in one folder per class, the layout of ImageNet and its subsets."""

from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal

from rightreasons.core.checks import check_fraction
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.class_folders import read_class_folders
from rightreasons.datasets.images.files import image_size
from rightreasons.datasets.images.manifest import Manifest
from rightreasons.datasets.images.splits import (
    Reading,
    augment_training,
    check_augmentation,
    check_polarity,
    check_size,
    check_value_range,
    image_splits,
)
from rightreasons.errors import DatasetCorruptError, InvalidSettingError

__all__ = ["image_folder"]

LOOKED_AT, LARGEST = 100, 224
CARD = Card(name="image_folder", shortcut="unknown", valid_range=(0.0, 1.0))


def image_folder(
    path: str | PathLike[str],
    *,
    size: int | None = None,
    seed: int = 0,
    validation_share: float = 0.1,
    test_share: float = 0.2,
    mask_polarity: str | None = None,
    value_range: tuple[float, float] | None = None,
    flip: bool = False,
    crop: int = 0,
    in_memory: bool | Literal["auto"] = "auto",
    workers: int | None = None,
    verify: bool = False,
) -> Splits:
    """Your own images in class folders, such as ImageNet-100, with or without masks.

    The folder::

        train/CLASS/NAME.jpg                           or CLASS/NAME.jpg
        val/CLASS/NAME.jpg
        test/CLASS/NAME.jpg                            may be absent
        masks/train/CLASS/NAME.png                     masks, if there are any

    A split may have several folders, such as ``train.X1``, ``train.X2`` and ``val.X`` of the
    published ImageNet-100. The classes are the folders of the training part, sorted. Without
    ``test``, ``val`` is the test part, and validation images are held out from training. Without
    folders of splits, test and validation images are drawn. Images are turned upright, converted
    to colour, resized (which ignores the aspect ratio) and scaled to [0, 1]. A mask has the path
    of its image, below ``masks``, and the size of its image.

    Args:
        path: The folder.
        size: Side in pixels. None takes the size of the images if the first 100 have one size of
            at most 224 pixels, and 224 otherwise.
        seed: Random seed for the splits, the flips and the crops.
        validation_share: Fraction of the images to hold out if there is no ``test``, stratified
            by class; 0 for none.
        test_share: Fraction of the images to test on if there are no folders of splits,
            stratified by class.
        mask_polarity: What is white in the masks: ``"irrelevant"``, what the model must not look
            at, or ``"relevant"``, what it should look at (inverted here). Needed if there are
            masks.
        value_range: The values that become 0 and 1, for images with more than 8 bits a channel.
        flip: Whether to mirror training images at random, as in `Augmented`.
        crop: Largest random shift of training images in pixels, as in `Augmented`.
        in_memory: Whether to decode everything once; ``"auto"``: if it fits into 2 GiB.
        workers: Number of threads or processes that decode; the number of processors, at most 4,
            if None.
        verify: Whether to decode every file once before training reads from disk; if False,
            damaged files are found in training.

    Raises:
        DatasetNotFoundError: The folders are not there.
        DatasetCorruptError: One line for each file that cannot be read.
    """
    stated_size = check_size(size)
    reading = Reading(workers=workers, in_memory=in_memory, verify=verify)
    check_fraction("validation_share", validation_share, below_one=True)
    check_fraction("test_share", test_share, below_one=True)
    if not 0 < test_share < 1 - validation_share:
        raise InvalidSettingError(
            "Expected `test_share` and `validation_share` to leave samples to train and to test "
            f"on, but got {test_share:g} and {validation_share:g}."
        )
    check_value_range(value_range)
    check_augmentation(flip, crop, seed)
    manifest, problems = read_class_folders(
        Path(path).expanduser(),
        validation_share=validation_share,
        test_share=test_share,
        seed=seed,
    )
    if stated_size is None:
        stated_size = _common_size(manifest)
    polarity = check_polarity(mask_polarity, manifest, problems)
    splits = image_splits(
        manifest,
        problems,
        size=stated_size,
        card=_card(manifest),
        reading=reading,
        mask_polarity=polarity,
        value_range=value_range,
    )
    return augment_training(splits, flip=flip, crop=crop, seed=seed)


def _common_size(manifest: Manifest) -> tuple[int, int]:
    """The size of the first images if it is one and small, or that of ImageNet's nets."""
    sizes = set()
    for entry in manifest.entries[:LOOKED_AT]:
        with suppress(OSError, DatasetCorruptError):  # reading all images names it
            sizes.add(image_size(manifest.root / entry.file))
    size = sizes.pop() if len(sizes) == 1 else (LARGEST, LARGEST)
    return size if max(size) <= LARGEST else (LARGEST, LARGEST)


def _card(manifest: Manifest) -> Card:
    counted = f"{len(manifest.entries):,} images of {len(manifest.classes)} classes"
    description = f"{counted} from the folder {manifest.root.name!r}."
    shortcut = "what the masks mark" if manifest.has_masks else CARD.shortcut
    return replace(CARD, description=description, shortcut=shortcut)
