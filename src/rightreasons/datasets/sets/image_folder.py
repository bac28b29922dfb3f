"""Images sorted into one folder for each class, as ImageNet and its parts come."""

from collections.abc import Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal

import torch

from rightreasons.core.checks import check_flag, check_fraction, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.augmented import Augmented
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.manifest import Entry, Manifest
from rightreasons.datasets.images.splits import Reading, checked_size, image_splits
from rightreasons.datasets.splitting import stratified
from rightreasons.errors import DatasetNotFoundError

__all__ = ["image_folder"]

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".webp")
SPLITS = {"train": ("train",), "val": ("val", "validation"), "test": ("test",)}
CARD = Card(name="image_folder", shortcut="unknown")


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

    Parts of a split may lie beside each other, as in ``train.X1``, ``train.X2``, ``val.X`` of the
    published ImageNet-100. The classes are the folders of the training part, sorted. Where there
    is no ``test``, ``val`` is what models are judged by, and validation images are held out from
    training. Images are turned upright, converted to colour, resized (which ignores the aspect
    ratio) and scaled to [0, 1].

    Args:
        path: The folder.
        size: Side in pixels.
        seed: Of the validation split, the flips and crops.
        validation_share: Of the training images to hold out where there is no ``test``,
            stratified by class; 0 for none.
        flip: Mirror training images at random, see `Augmented`.
        crop: Move training images by up to so many pixels at random, see `Augmented`.
        in_memory: Decode everything once; ``"auto"``: if it fits into 2 GiB.
        workers: Threads or processes that decode; the number of processors, at most 4, if None.
        verify: Decode every file once before streaming from disk; False finds damaged ones in
            training.

    Raises:
        DatasetNotFoundError: The folders are not there.
        DatasetCorruptError: One line for each file that cannot be read.
    """
    stated_size = checked_size(size)
    reading = Reading(workers=workers, in_memory=in_memory, verify=verify)
    check_fraction("validation_share", validation_share, below_one=True)
    augment = check_flag("flip", flip) | bool(check_integer("crop", crop, low=0))
    stream = random_stream(seed, "image_folder", "split")
    root = Path(path).expanduser()
    files = {split: list(_files(root, names)) for split, names in SPLITS.items()}
    if not files["train"] or not (files["val"] or files["test"]):
        raise DatasetNotFoundError(
            f"Expected images in {root}, in train/CLASS and in val/CLASS or test/CLASS, but found "
            f"{', '.join(f'{len(some)} in {split}' for split, some in files.items())}. Images end "
            f"in {', '.join(SUFFIXES)}."
        )
    classes = tuple(sorted({file.parent.name for file in files["train"]}))
    if not files["test"]:
        files["test"], files["val"] = files["val"], []
        y = torch.tensor([classes.index(file.parent.name) for file in files["train"]])
        held_out, kept = stratified(y, sizes=[round(validation_share * len(y))], stream=stream)
        everything = files["train"]
        files["val"] = [everything[place] for place in held_out.tolist()]
        files["train"] = [everything[place] for place in kept.tolist()]
    manifest, problems = _listed(root, files, classes)
    splits = image_splits(
        manifest,
        problems,
        size=stated_size,
        channels=3,
        mask_polarity="irrelevant",
        card=_card(manifest),
        reading=reading,
    )
    if augment:
        return replace(splits, train=Augmented(splits.train, flip=flip, crop=crop, seed=seed))
    return splits


def _files(root: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """The images of a split, by folder and name."""
    if not root.is_dir():
        return
    for part in sorted(root.iterdir()):
        if part.is_dir() and part.name.split(".")[0] in names:
            for folder in sorted(one for one in part.iterdir() if one.is_dir()):
                yield from sorted(
                    file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES
                )


def _listed(
    root: Path, files: dict[str, list[Path]], classes: tuple[str, ...]
) -> tuple[Manifest, list[str]]:
    numbers = {name: number for number, name in enumerate(classes)}
    entries, unknown = list[Entry](), set[Path]()
    for split, some in files.items():
        for file in some:
            label = numbers.get(file.parent.name)
            if label is None:
                unknown.add(file.parent.relative_to(root))
                continue
            name = str(file.relative_to(root))
            entries.append(Entry(len(entries) + 1, name, split, label, -1, ""))
    problems = [f"{folder}: is no class of the training images" for folder in sorted(unknown)]
    return Manifest(root, tuple(entries), classes, (), origin="class folders"), problems


def _card(manifest: Manifest) -> Card:
    counted = f"{len(manifest.entries):,} images of {len(manifest.classes)} classes"
    return replace(CARD, description=f"{counted} from the folder {manifest.root.name!r}.")
