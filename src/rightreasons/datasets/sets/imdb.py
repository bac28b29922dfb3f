"""IMDB: film reviews, positive or negative (Maas et al. 2011)."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import torch

from rightreasons.core.checks import check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.table import read_table
from rightreasons.datasets.splitting import stratified_split
from rightreasons.datasets.texts.splits import TextRow, text_splits
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError

__all__ = ["Review", "choose_reviews", "imdb", "read_imdb"]

ARCHIVE = "imdb.parquet"
CLASSES = ("negative", "positive")
CARD = Card(
    name="imdb",
    description="Reviews of films, positive or negative.",
    source="Maas et al. 2011",
    licence="none stated; research use",
    shortcut="names of films and people lean to one class",
    classes=CLASSES,
    groups=CLASSES,
)


class Review(NamedTuple):
    """A text, the number of its class, and its split."""

    text: str
    label: int
    split: str


def imdb(
    data_dir: str | PathLike[str],
    *,
    subset: int | None = None,
    test_subset: int | None = None,
    validation: int = 2000,
    tokenizer: str = "words",
    max_length: int = 256,
    seed: int = 0,
) -> Splits:
    """Reviews of films, positive or negative; no masks; groups are the classes.

    Args:
        data_dir: Folder with ``aclImdb`` as it was published, or with ``imdb.parquet``.
        subset: Number of reviews to train and validate on; None is all 25,000.
        test_subset: Number of reviews to test on; None is all 25,000.
        validation: How many of the former are for validation.
        tokenizer: ``"words"``, ``"minilm"`` or the folder of a language model.
        max_length: Most tokens of a review; the rest is cut off.
        seed: Random seed for the choice of reviews.

    References:
        maas2011learning
    """
    reviews = choose_reviews(
        read_imdb(data_dir),
        subset=subset,
        test_subset=test_subset,
        validation=validation,
        seed=seed,
    )
    rows = [TextRow(one.text, one.label, one.split, group=one.label) for one in reviews]
    return text_splits(rows, CARD, tokenizer=tokenizer, max_length=max_length)


def read_imdb(data_dir: str | PathLike[str]) -> list[Review]:
    """Read all reviews, of the splits ``"train"`` and ``"test"``.

    Args:
        data_dir: Folder with ``aclImdb`` or ``imdb.parquet``.
    """
    root = Path(data_dir).expanduser()
    if (root / ARCHIVE).is_file():
        reviews = _read_archive(root / ARCHIVE)
    else:
        folder = root if root.name == "aclImdb" else root / "aclImdb"
        paths = {
            (split, label): sorted((folder / split / name).glob("*.txt"))
            for split in ("train", "test")
            for label, name in enumerate(("neg", "pos"))
        }
        reviews = [
            Review(_clean(path.read_text(encoding="utf-8")), label, split)
            for (split, label), found in paths.items()
            for path in found
        ]
    if not reviews:
        raise DatasetNotFoundError(
            f"Expected IMDB in {root}, but found neither aclImdb/train/pos/*.txt nor {ARCHIVE} "
            "there. Unpack aclImdb_v1.tar.gz in it."
        )
    return reviews


def choose_reviews(
    reviews: Sequence[Review],
    *,
    subset: int | None,
    test_subset: int | None,
    validation: int,
    seed: int,
) -> list[Review]:
    """Choose reviews of each split, each class alike, and hold some out for validation."""
    chosen: list[Review] = []
    for split, size in (("train", subset), ("test", test_subset)):
        some = [one for one in reviews if one.split == split]
        size = len(some) if size is None else check_integer(f"{split} reviews", size, low=2)
        if size > len(some):
            raise InvalidSettingError(
                f"Expected at most {len(some)} reviews for the split {split!r}, but got {size}."
            )
        stream = random_stream(seed, "imdb", split)
        labels = torch.tensor([one.label for one in some])
        kept = stratified_split(labels, sizes=[size], stream=stream)[0]
        chosen += [some[n] for n in kept.tolist()]
    training = [n for n, one in enumerate(chosen) if one.split == "train"]
    check_integer("validation", validation, low=0, high=len(training) - 2)
    labels = torch.tensor([chosen[n].label for n in training])
    held_out = stratified_split(
        labels, sizes=[validation], stream=random_stream(seed, "imdb", "validation")
    )[0]
    for n in held_out.tolist():
        chosen[training[n]] = chosen[training[n]]._replace(split="val")
    return chosen


def _read_archive(path: Path) -> list[Review]:
    header, rows = read_table(path)
    places = [header.index(name) if name in header else -1 for name in ("text", "label", "split")]
    if -1 in places:
        raise DatasetCorruptError(
            f"Expected {path} to have the columns text, label and split, but it has "
            f"{', '.join(header)}."
        )
    cells = [[row[place] for place in places] for _, row in rows]
    return [Review(_clean(text), int(label), split) for text, label, split in cells]


def _clean(text: str) -> str:
    return text.replace("<br />", " ").strip()
