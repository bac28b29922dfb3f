"""Plant phenotyping: leaves on a nutrient solution that tells the class."""

import re
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from rightreasons.core.checks import check_choice, check_fraction, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.archives import read_pickled_arrays
from rightreasons.datasets.images.manifest import Entry
from rightreasons.datasets.images.reader import ImageReader, decode_into_memory
from rightreasons.datasets.images.splits import Reading
from rightreasons.datasets.splitting import in_memory_splits, stratified_split
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError
from rightreasons.types import Batch

__all__ = ["plant"]

NUM_FOLDS = 5
CARD = Card(
    name="plant",
    description="Photographs of sugar beet leaves: healthy or infected.",
    source="Plant phenotyping, P. Schramowski et al. 2020",
    licence="unknown; ask the authors",
    shortcut="The nutrient solution around the leaf, which tells the class in training.",
    classes=("healthy", "infected"),
    groups=("healthy", "infected"),
)
NUM_CONTROLS = 3  # leaves Z1 to Z3 were never infected
BRIGHTNESS = 2
BACKGROUNDS = ("mean", "own")
NAME = re.compile(r"(?P<day>[1-9])_Z(?P<leaf>\d+)_")
MASKS = Path("mask", "preprocessed_masks.pyu")


def plant(
    data_dir: str | PathLike[str],
    *,
    fold: int = 2,
    size: int = 213,
    test_background: str = "mean",
    seed: int = 0,
    validation_share: float = 0.1,
    workers: int | None = None,
) -> Splits:
    """Photographs of leaves; the solution around a leaf tells whether it is infected.

    The folder, as Schramowski et al. published it::

        rgb_data/DAY/NAME.JPEG               NAME is DAY_Z<leaf>_…
        rgb_dataset_splits/train_FOLD.txt    names, one a line; also test_FOLD.txt; folds 0 to 4
        mask/preprocessed_masks.pyu          a pickled dictionary: NAME -> array, True in the leaf

    The brightness of images, in [0, 1], is doubled. Leaves Z1 to Z3 are healthy (label 0), the
    others infected (1). The mask is everything that is not leaf, ``(N, 1, H, W)``; the group is
    the label.

    Differs from the paper: some of the training images validate, unless ``validation_share=0``;
    masks are not softened.

    Args:
        data_dir: The folder.
        fold: Number of the split, 0 to 4; the paper shows 2.
        size: Side in pixels, 213 as published.
        test_background: ``"mean"``: test images get the mean colour of the training images
            outside the leaf, so that the background tells nothing; ``"own"``: no change.
        seed: Random seed for the validation split.
        validation_share: Fraction of the training images for validation; 0 for none.
        workers: Number of threads that decode; the number of processors, at most 4, if None.

    Raises:
        DatasetNotFoundError: A file is not there.
        DatasetCorruptError: Files cannot be read or contradict each other.

    References:
        ghitu2025model, schramowski2020making
    """
    check_integer("fold", fold, low=0, high=NUM_FOLDS - 1)
    check_integer("size", size, low=1)
    check_choice("test_background", test_background, BACKGROUNDS)
    check_fraction("validation_share", validation_share, below_one=True)
    reading = Reading(workers=workers)
    stream = random_stream(seed, "plant", "split")
    root = Path(data_dir).expanduser()
    lists = [root / "rgb_dataset_splits" / f"{part}_{fold}.txt" for part in ("train", "test")]
    missing = [str(path.relative_to(root)) for path in (*lists, root / MASKS) if not path.is_file()]
    if missing:
        raise DatasetNotFoundError(
            f"Expected the plant data in {root}: images in rgb_data/DAY, lists in "
            f"rgb_dataset_splits and {MASKS}; but found no {', no '.join(missing)}. Pass the "
            "folder that has these three."
        )
    names = [path.read_text(encoding="utf-8").split() for path in lists]
    leaves = read_pickled_arrays(root / MASKS)
    _check_names(names, leaves, root)
    held_in, test = (_read_part(root, part, leaves, size, reading) for part in names)
    if test_background == "mean" and test.mask is not None:
        mean = held_in.x.mean(dim=(0, 2, 3), keepdim=True)
        test = test.replace(x=torch.where(test.mask > 0, mean, test.x))
    num_val = round(validation_share * len(held_in))
    val, train = stratified_split(held_in.y, sizes=[num_val], stream=stream)
    return in_memory_splits(
        train=held_in[train], val=held_in[val] if num_val else None, test=test, card=CARD
    )


def _check_names(names: list[list[str]], leaves: dict[str, NDArray[Any]], root: Path) -> None:
    train, test = names
    every = [*train, *test]
    problems = [f"{name}: has no mask" for name in every if name not in leaves]
    problems += [f"{name}: is not DAY_Z<leaf>_…" for name in every if not NAME.match(name)]
    problems += [f"{name}: is in both parts" for name in sorted(set(train) & set(test))]
    problems += ["a list without names"] * (not train or not test)
    if problems:
        raise DatasetCorruptError(
            f"Expected the lists of {root} to name images with masks, each once, but got "
            f"{len(problems)} problem{'s' if len(problems) > 1 else ''}: {'; '.join(problems[:9])}."
        )


def _read_part(
    root: Path, names: list[str], leaves: dict[str, NDArray[Any]], size: int, reading: Reading
) -> Batch:
    entries = [
        Entry(
            row=row,
            file=f"rgb_data/{name[0]}/{name}.JPEG",
            split="",
            label=_label(name),
            group=_label(name),
            mask="",
        )
        for row, name in enumerate(names, 1)
    ]
    reader = ImageReader(root=root, size=(size, size), channels=3, mask_polarity="relevant")
    batch, problems = decode_into_memory(
        entries, reader, has_groups=True, workers=reading.num_workers
    )
    if problems:
        listing = "\n".join(f"  {line}" for line in problems[:500])
        raise DatasetCorruptError(
            f"Expected {root} to hold the images its lists name, but got:\n{listing}"
        )
    mask = torch.stack([1 - _resize_leaf(leaves[name], size) for name in names])
    return batch.replace(x=batch.x.mul_(BRIGHTNESS).clamp_(max=1), mask=mask)


def _label(name: str) -> int:
    match = NAME.match(name)
    return int(match is not None and int(match["leaf"]) > NUM_CONTROLS)


def _resize_leaf(array: NDArray[Any], size: int) -> Tensor:
    """1 in the leaf, ``(1, size, size)``; from ``(H, W)``, ``(3, H, W)`` or ``(H, W, 3)``."""
    leaf = torch.from_numpy(array.astype("float32"))
    if leaf.ndim == 3:
        leaf = leaf.amax(dim=0 if leaf.shape[0] == 3 else 2)
    scaled = functional.interpolate((leaf > 0).float()[None, None], size=(size, size))
    return scaled[0]
