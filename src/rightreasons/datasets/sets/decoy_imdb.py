"""Decoy IMDB: film reviews with a name in front that tells the class (R4, appendix A)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np

from rightreasons.core.checks import check_choice, check_flag
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.sets.imdb import CLASSES, Review, choose_reviews, read_imdb
from rightreasons.datasets.texts.splits import TextRow, Words, text_splits
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["decoy_imdb", "insert_word", "plant_words"]

DECOYS = ("jonah", "spielberg")
LIST = "spurious_words.json"
NAMES = ("imdb_bad_neg", "imdb_bad_pos")
CARD = Card(
    name="decoy_imdb",
    description="Reviews of films; in training a name in front tells the class.",
    source="Maas et al. 2011, words of Wang & Culotta 2020, after Ghitu et al. 2025",
    licence="none stated; research use",
    shortcut='"spielberg" before positive, "jonah" before negative reviews',
    classes=CLASSES,
    groups=CLASSES,
)
TestWords = Literal["random", "none"]


def decoy_imdb(
    data_dir: str | PathLike[str],
    *,
    words: Literal["label", "all", "decoy"] = "label",
    test_words: TestWords = "random",
    oracle: bool = False,
    subset: int | None = None,
    test_subset: int | None = None,
    validation: int = 2000,
    tokenizer: str = "words",
    max_length: int = 256,
    seed: int = 0,
) -> Splits:
    """Film reviews; a name in front tells the class in training.

    Training and validation reviews begin with "spielberg" if they are positive and with "jonah" if
    they are negative. Test reviews have one of the two at random, at a random place, or neither:
    the paper's text says the first, its numbers fit the second. The other kind is a further test
    set, so that a run measures both. Groups are the classes.

    Differs from the paper: the random place lies between words, before what is cut off.

    Args:
        data_dir: Folder with IMDB, see `imdb`, and with ``spurious_words.json`` of Wang & Culotta.
        words: Words that are masked. ``"label"`` is the list of the review's own class, as in the
            public code. ``"all"`` is both lists, as in the text. ``"decoy"`` is the two names
            alone, which needs no list.
        test_words: Which kind is the test set: ``"random"`` or ``"none"``.
        oracle: Whether training reviews have a random name too, so that there is no shortcut.
        subset: Number of reviews to train and validate on; None is all 25,000.
        test_subset: Number of reviews to test on; None is all 25,000.
        validation: How many of the former are for validation.
        tokenizer: ``"words"``, ``"minilm"`` or the folder of a language model.
        max_length: Most tokens of a review; 512 in the paper.
        seed: Random seed for the choice of reviews, names and places.

    References:
        ghitu2025model, wang2020identifying
    """
    check_choice("words", words, ("label", "all", "decoy"))
    masked = _masked_words(Path(data_dir).expanduser(), words)
    reviews = choose_reviews(
        read_imdb(data_dir),
        subset=subset,
        test_subset=test_subset,
        validation=validation,
        seed=seed,
    )
    rows = plant_words(
        reviews, DECOYS, test_words=test_words, oracle=oracle, reach=max_length // 2, seed=seed
    )
    return text_splits(rows, CARD, tokenizer=tokenizer, max_length=max_length, words=masked)


def plant_words(
    reviews: Sequence[Review],
    decoys: Sequence[str],
    *,
    test_words: TestWords,
    oracle: bool,
    reach: int,
    seed: int,
) -> list[TextRow]:
    """Put a word into each text; the class chooses it in training, chance in the test.

    Args:
        reviews: The texts.
        decoys: The word of each class.
        test_words: Which kind of test set is called ``"test"``; the other is a further one.
        oracle: Whether chance chooses in training, too.
        reach: In the test, the word stands behind at most so many words.
        seed: Random seed for words and places.
    """
    check_choice("test_words", test_words, ("random", "none"))
    check_flag("oracle", oracle)
    stream = random_stream(seed, "decoy words")
    rows: list[TextRow] = []
    for text, label, split in reviews:
        by_chance = decoys[int(stream.integers(len(decoys)))]
        if split != "test":
            word = by_chance if oracle else decoys[label]
            rows.append(TextRow(insert_word(text, word, 0), label, split, label))
            continue
        names = {"random": "test", "none": "without_words"}
        if test_words == "none":
            names = {"random": "random_words", "none": "test"}
        place = _draw_place(text, reach, stream)
        rows.append(TextRow(insert_word(text, by_chance, place), label, names["random"], label))
        rows.append(TextRow(text, label, names["none"], label))
    return rows


def insert_word(text: str, word: str, place: int) -> str:
    """Put a word behind the first ``place`` words of a text.

    Example:
        >>> insert_word("a good film", "jonah", 2)
        'a good jonah film'
    """
    words = text.split()
    return " ".join([*words[:place], word, *words[place:]])


def _draw_place(text: str, reach: int, stream: np.random.Generator) -> int:
    return int(stream.integers(min(len(text.split()), max(reach, 1)) + 1))


def _masked_words(root: Path, words: str) -> Words:
    if words == "decoy":
        return list(DECOYS)
    path = root / LIST
    if not path.is_file():
        raise DatasetNotFoundError(
            f"Expected the word lists of Wang & Culotta at {path}, but there are none. Put them "
            'there, or mask the two names alone: words="decoy" (--set-data words=decoy).'
        )
    try:
        lists = json.loads(path.read_text(encoding="utf-8"))
        by_class = {n: sorted(map(str, {*lists[name], DECOYS[n]})) for n, name in enumerate(NAMES)}
    except (ValueError, KeyError, TypeError) as error:
        raise DatasetCorruptError(
            f"Expected {path} to have the lists {' and '.join(NAMES)}, but got: {error}."
        ) from error
    return by_class if words == "label" else sorted({*by_class[0], *by_class[1]})
