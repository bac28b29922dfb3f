"""The user's own images in one folder per class, the layout of ImageNet and its subsets."""

from collections.abc import Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal

from rightreasons.core.checks import check_fraction
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.files import list_images
from rightreasons.datasets.images.manifest import Manifest, folder_manifest, split_paths
from rightreasons.datasets.images.splits import (
    Reading,
    augment_training,
    check_augmentation,
    check_size,
    image_splits,
)
from rightreasons.errors import DatasetNotFoundError

__all__ = ["image_folder"]

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".webp")
SPLITS = {"train": ("train",), "val": ("val", "validation"), "test": ("test",)}
CARD = Card(name="image_folder", shortcut="unknown", valid_range=(0.0, 1.0))


def image_folder(
    path: str | PathLike[str],
    *,
    size: int = 224,
    seed: int = 0,
    validation_share: float = 0.1,
    flip: bool = False,
    crop: int = 0,
    in_memory: bool | Literal["auto"] = "auto",
    workers: int | None = None,
    verify: bool = False,
) -> Splits:
    """Your own images in class folders, such as ImageNet-100; no masks, no groups.

    The folder::

        train/CLASS/NAME.jpg
        val/CLASS/NAME.jpg
        test/CLASS/NAME.jpg                            may be absent

    A split may have several folders, such as ``train.X1``, ``train.X2`` and ``val.X`` of the
    published ImageNet-100. The classes are the folders of the training part, sorted. Without
    ``test``, ``val`` is the test part, and validation images are held out from training. Images
    are turned upright, converted to colour, resized (which ignores the aspect ratio) and scaled
    to [0, 1].

    Args:
        path: The folder.
        size: Side in pixels.
        seed: Random seed for the validation split, the flips and the crops.
        validation_share: Fraction of the training images to hold out if there is no ``test``,
            stratified by class; 0 for none.
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
    check_augmentation(flip, crop, seed)
    stream = random_stream(seed, "image_folder", "split")
    root = Path(path).expanduser()
    files = {split: list(_files(root, names)) for split, names in SPLITS.items()}
    if not files["train"] or not (files["val"] or files["test"]):
        raise DatasetNotFoundError(
            f"Expected images in {root}, in train/CLASS and in val/CLASS or test/CLASS, but found "
            f"{', '.join(f'{len(paths)} in {split}' for split, paths in files.items())}. Images "
            f"end in {', '.join(SUFFIXES)}."
        )
    classes = tuple(sorted({file.parent.name for file in files["train"]}))
    if not files["test"]:
        files["test"] = files["val"]
        kept, held_out = split_paths(files["train"], validation_share, stream=stream)
        files["train"], files["val"] = kept, held_out
    manifest, problems = folder_manifest(root, files, classes, origin="class folders")
    splits = image_splits(
        manifest,
        problems,
        size=stated_size,
        card=_card(manifest),
        reading=reading,
    )
    return augment_training(splits, flip=flip, crop=crop, seed=seed)


def _files(root: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """The images of a split, by folder and name."""
    if not root.is_dir():
        return
    for part in sorted(root.iterdir()):
        if part.is_dir() and part.name.split(".")[0] in names:
            for folder in sorted(one for one in part.iterdir() if one.is_dir()):
                yield from list_images(folder, SUFFIXES)


def _card(manifest: Manifest) -> Card:
    counted = f"{len(manifest.entries):,} images of {len(manifest.classes)} classes"
    return replace(CARD, description=f"{counted} from the folder {manifest.root.name!r}.")
