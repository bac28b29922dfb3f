"""ERASER's film reviews with rationales: everything outside them is masked."""

from os import PathLike
from pathlib import Path

from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.sets.hatexplain import spans_of_tokens
from rightreasons.datasets.sets.imdb import CLASSES
from rightreasons.datasets.texts.reading import read_json_lines
from rightreasons.datasets.texts.splits import TextRow, text_splits
from rightreasons.errors import DatasetNotFoundError

__all__ = ["eraser_movies"]

FILE = "eraser_movies.jsonl.gz"
CARD = Card(
    name="eraser_movies",
    description="Reviews of films with rationales: sentences that show the opinion.",
    source="Zaidan et al. 2007, DeYoung et al. 2020",
    licence="none stated; research use",
    shortcut="anything but the rationale",
    classes=CLASSES,
    groups=CLASSES,
)


def eraser_movies(
    data_dir: str | PathLike[str],
    *,
    strength: float = 1.0,
    tokenizer: str = "words",
    max_length: int = 512,
    seed: int = 0,
) -> Splits:
    """Film reviews with rationales; all but the rationale is masked.

    1,600 reviews to train on, 200 for validation and 199 to test on. Groups are the classes.

    Args:
        data_dir: Folder with ``eraser_movies.jsonl.gz``: lines of ``split``, ``label``, ``text``
            and ``rationale_spans`` in words.
        strength: Value of the mask outside the rationale, in (0, 1].
        tokenizer: ``"words"``, ``"minilm"`` or the folder of a language model.
        max_length: Most tokens of a review.
        seed: Takes no part; all data sets have it.

    References:
        deyoung2020eraser
    """
    del seed
    path = Path(data_dir).expanduser() / FILE
    if not path.is_file():
        raise DatasetNotFoundError(
            f"Expected ERASER's film reviews at {path}, but there is no such file. Write lines of "
            "JSON with split, label, text and rationale_spans."
        )
    rows = []
    for review in read_json_lines(path):
        words, marked = str(review["text"]).split(), set[int]()
        for first, last in review["rationale_spans"]:
            marked |= set(range(int(first), int(last)))
        spans = spans_of_tokens(words, [place in marked for place in range(len(words))])
        label = int(review["label"])
        rows.append(TextRow(" ".join(words), label, str(review["split"]), label, spans))
    return text_splits(
        rows,
        CARD,
        tokenizer=tokenizer,
        max_length=max_length,
        relevant=True,
        strength=strength,
    )
