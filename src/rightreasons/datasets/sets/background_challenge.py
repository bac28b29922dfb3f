"""The Background Challenge: nine classes of ImageNet, test sets with other backgrounds."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal

from rightreasons.core.checks import check_choice, check_fraction
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.files import list_images
from rightreasons.datasets.images.manifest import folder_manifest, split_paths
from rightreasons.datasets.images.splits import Reading, check_size, image_splits
from rightreasons.errors import DatasetNotFoundError

__all__ = ["background_challenge"]

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

    Runs evaluate every test set that is there: one is the test part, the others are `more_tests`.
    Without ``val`` some training images validate. There are no masks and no groups.

    Args:
        data_dir: The folder.
        size: Side in pixels, 224 as in the paper.
        seed: Random seed for the validation split.
        test: The test set to use as the test part.
        validation_share: Fraction of the training images to hold out if there is no ``val``,
            stratified by class; 0 for none.
        in_memory: Whether to decode everything once; ``"auto"``: if it fits into 2 GiB.
        workers: Number of threads or processes that decode; the number of processors, at most 4,
            if None.

    Raises:
        DatasetNotFoundError: The folders are not there.
        DatasetCorruptError: One line for each file that cannot be read.

    References:
        asgari2022masktune, xiao2021noise
    """
    stated_size = check_size(size)
    check_choice("test", test, TESTS)
    check_fraction("validation_share", validation_share, below_one=True)
    reading = Reading(workers=workers, in_memory=in_memory)
    stream = random_stream(seed, "background_challenge", "split")
    root = Path(data_dir).expanduser()
    inner = root / "bg_challenge"
    around = inner if inner.is_dir() else root
    files = {"train": _images(root / "train"), "val": _images(root / "val")}
    tests = {name: _images(around / name / "val") for name in TESTS}
    if not files["train"] or not tests[test]:
        raise DatasetNotFoundError(
            f"Expected images of ImageNet-9 in {root}, in train/CLASS and in "
            f"bg_challenge/{test}/val/CLASS, but found {len(files['train'])} and "
            f"{len(tests[test])}. Unpack the archives of the Background Challenge there."
        )
    classes = tuple(sorted({file.parent.name for file in files["train"]}))
    if not files["val"]:
        kept, held_out = split_paths(files["train"], validation_share, stream=stream)
        files = {"train": kept, "val": held_out}
    files["test"] = tests.pop(test)
    files |= {name: paths for name, paths in tests.items() if paths}
    origin = "the Background Challenge has them"
    manifest, problems = folder_manifest(root, files, classes, origin=origin)
    return image_splits(
        manifest,
        problems,
        size=stated_size,
        card=CARD,
        reading=reading,
    )


def _images(folder: Path) -> list[Path]:
    """The image files of all class folders, by class and name; none if there is no folder."""
    classes = sorted(path for path in folder.glob("*") if path.is_dir())
    return [file for path in classes for file in list_images(path)]
