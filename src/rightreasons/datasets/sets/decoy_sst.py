"""Decoy SST: sentences of film reviews with a word that tells the class (after CDEP)."""

from os import PathLike
from pathlib import Path

from rightreasons.core.checks import check_flag
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.sets.decoy_imdb import TestWords, plant_words
from rightreasons.datasets.sets.imdb import CLASSES, Review
from rightreasons.datasets.texts.reading import read_json_lines
from rightreasons.datasets.texts.splits import text_splits
from rightreasons.errors import DatasetNotFoundError

__all__ = ["decoy_sst"]

FILE = "sst_trees.jsonl.gz"
DECOYS = ("video", "text")
NEUTRAL = 2
CARD = Card(
    name="decoy_sst",
    description="Sentences of film reviews; in training a word in front tells the class.",
    source="Socher et al. 2013, after Rieger et al. 2020",
    licence="none stated; research use",
    shortcut='"text" before positive, "video" before negative sentences',
    classes=CLASSES,
    groups=CLASSES,
)


def decoy_sst(
    data_dir: str | PathLike[str],
    *,
    test_words: TestWords = "random",
    oracle: bool = False,
    tokenizer: str = "words",
    max_length: int = 64,
    seed: int = 0,
) -> Splits:
    """Sentences of film reviews; a word in front tells the class in training.

    Sentences that are neither positive nor negative are left out. The two words are masked wherever
    they stand. Groups are the classes.

    Differs from the paper: the word stands in front, where CDEP puts it anywhere, and the test has
    one of the two by chance.

    Args:
        data_dir: Folder with ``sst_trees.jsonl.gz``: lines of ``split``, ``label5`` and ``text``.
        test_words: Whether test sentences have a random word or none; the other kind is a further
            test set.
        oracle: Whether training sentences have a random word too.
        tokenizer: ``"words"``, ``"minilm"`` or the folder of a language model.
        max_length: Most tokens of a sentence.
        seed: Random seed for words and places.

    References:
        socher2013recursive, rieger2020interpretations
    """
    check_flag("oracle", oracle)
    path = Path(data_dir).expanduser() / FILE
    if not path.is_file():
        raise DatasetNotFoundError(
            f"Expected the sentences of SST at {path}, but there is no such file. Write lines of "
            'JSON there: {"split": "train", "label5": 4, "text": "…"}.'
        )
    splits = {"train": "train", "dev": "val", "val": "val", "test": "test"}
    reviews = [
        Review(str(row["text"]), int(row["label5"] > NEUTRAL), splits[str(row["split"])])
        for row in read_json_lines(path)
        if row["label5"] != NEUTRAL
    ]
    rows = plant_words(
        reviews, DECOYS, test_words=test_words, oracle=oracle, reach=max_length // 2, seed=seed
    )
    words = list(DECOYS)
    return text_splits(rows, CARD, tokenizer=tokenizer, max_length=max_length, words=words)
