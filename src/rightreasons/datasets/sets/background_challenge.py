"""The Background Challenge: ImageNet in nine classes, and test sets with other backgrounds."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal

import torch

from rightreasons.core.checks import check_choice, check_fraction
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.manifest import Entry, Manifest
from rightreasons.datasets.images.splits import Reading, checked_size, image_splits
from rightreasons.datasets.splitting import stratified
from rightreasons.errors import DatasetNotFoundError

__all__ = ["background_challenge"]

SUFFIXES = (".jpeg", ".jpg", ".png")
TESTS = ("original", "mixed_same", "mixed_rand", "only_fg")
CARD = Card(
    name="background_challenge",
    description="ImageNet-9: nine classes of objects, at test also before other backgrounds.",
    source="ImageNet, J. Deng et al. 2009; backgrounds exchanged by K. Xiao et al. 2020",
    licence="ImageNet's terms of access: research and education",
    shortcut="The background: it tells the class in training, and not where it was exchanged.",
)


def background_challenge(
    data_dir: str | PathLike[str],
    *,
    size: int = 224,
    seed: int = 0,
    test: Literal["original", "mixed_same", "mixed_rand", "only_fg"] = "original",
    validation_share: float = 0.1,
    in_memory: bool | Literal["auto"] = "auto",
    workers: int | None = None,
) -> Splits:
    """ImageNet-9, and test sets whose backgrounds were exchanged or removed.

    The folder, as the challenge's archives unpack, with or without ``bg_challenge`` around the
    test sets::

        train/00_dog/NAME.JPEG                         of ImageNet-9 or ImageNet-9L
        val/00_dog/NAME.JPEG                           may be absent
        bg_challenge/original/val/00_dog/NAME.JPEG
        bg_challenge/mixed_same/val/00_dog/NAME.JPEG   background of another image of the class
        bg_challenge/mixed_rand/val/00_dog/NAME.JPEG   background of an image of any class
        bg_challenge/only_fg/val/00_dog/NAME.JPEG      no background

    Runs measure every test set that is there: one is the test part, the others are `more_tests`.
    Without ``val`` some training images validate. There are no masks and no groups.

    Args:
        data_dir: The folder.
        size: Side in pixels, 224 as in the paper.
        seed: Of the validation split.
        test: Which set is the test part.
        validation_share: Of the training images to hold out where there is no ``val``,
            stratified by class; 0 for none.
        in_memory: Decode everything once; ``"auto"``: if it fits into 2 GiB.
        workers: Threads or processes that decode; the number of processors, at most 4, if None.

    Raises:
        DatasetNotFoundError: The folders are not there.
        DatasetCorruptError: One line for each file that cannot be read.

    References:
        asgari2022masktune, xiao2021noise
    """
    stated_size = checked_size(size)
    check_choice("test", test, TESTS)
    check_fraction("validation_share", validation_share, below_one=True)
    reading = Reading(workers=workers, in_memory=in_memory)
    stream = random_stream(seed, "background_challenge", "split")
    root = Path(data_dir).expanduser()
    inner = root / "bg_challenge"
    around = inner if inner.is_dir() else root
    files = {"train": _images(root / "train"), "val": _images(root / "val")}
    found = {name: _images(around / name / "val") for name in TESTS}
    if not files["train"] or not found[test]:
        raise DatasetNotFoundError(
            f"Expected images of ImageNet-9 in {root}, in train/CLASS and in "
            f"bg_challenge/{test}/val/CLASS, but found {len(files['train'])} and "
            f"{len(found[test])}. Unpack the archives of the Background Challenge there."
        )
    classes = tuple(sorted({file.parent.name for file in files["train"]}))
    if not files["val"]:
        y = torch.tensor([classes.index(file.parent.name) for file in files["train"]])
        held_out, kept = stratified(y, sizes=[round(validation_share * len(y))], stream=stream)
        everything = files["train"]
        files = {
            "train": [everything[place] for place in kept.tolist()],
            "val": [everything[place] for place in held_out.tolist()],
        }
    files["test"] = found.pop(test)
    files |= {name: some for name, some in found.items() if some}
    manifest, problems = _listed(root, files, classes)
    return image_splits(
        manifest,
        problems,
        size=stated_size,
        channels=3,
        mask_polarity="irrelevant",
        card=CARD,
        reading=reading,
    )


def _images(folder: Path) -> list[Path]:
    """The image files of all class folders, by class and name; none if there is no folder."""
    if not folder.is_dir():
        return []
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    return [
        file
        for path in classes
        for file in sorted(path.iterdir())
        if file.suffix.lower() in SUFFIXES
    ]


def _listed(
    root: Path, files: dict[str, list[Path]], classes: tuple[str, ...]
) -> tuple[Manifest, list[str]]:
    entries, unknown = list[Entry](), set[Path]()
    for split, some in files.items():
        for file in some:
            if file.parent.name not in classes:
                unknown.add(file.parent.relative_to(root))
                continue
            label = classes.index(file.parent.name)
            name = str(file.relative_to(root))
            entries.append(Entry(len(entries) + 1, name, split, label, -1, ""))
    problems = [f"{folder}: is no class of the training images" for folder in sorted(unknown)]
    origin = "the Background Challenge has them"
    return Manifest(root, tuple(entries), classes, (), origin=origin), problems
