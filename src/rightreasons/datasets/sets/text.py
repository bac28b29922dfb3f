"""The user's own texts: a folder with a table of texts, labels and spans."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from rightreasons.datasets.dataset import Splits
from rightreasons.datasets.texts.reading import dataset
from rightreasons.errors import DatasetNotFoundError

__all__ = ["text"]


def text(
    path: str | PathLike[str],
    *,
    text: str = "text",
    label: str = "label",
    mask_polarity: str | None = None,
    words: Sequence[str] | str | None = None,
    tokenizer: str = "words",
    max_length: int = 128,
    strength: float = 1.0,
    validation_share: float = 0.1,
    test_share: float = 0.2,
    seed: int = 0,
) -> Splits:
    """Your own texts: a folder with a table data.csv of text, label, split and spans.

    The table may also be ``data.parquet`` or ``data.jsonl``; see `rr.text.dataset` for its columns.

    Args:
        path: The folder, or the table itself.
        text: Name of the column of texts.
        label: Name of the column of labels.
        mask_polarity: What spans mark: ``"irrelevant"`` or ``"relevant"``. Needed with spans.
        words: Words the model must not look at; a name of a file in the folder has one a line.
        tokenizer: ``"words"``, ``"minilm"`` or the folder of a language model.
        max_length: Most tokens of a text.
        strength: Value of the mask where the model must not look, in (0, 1].
        validation_share: Fraction for validation, if the table has no splits.
        test_share: Fraction for the test, if the table has no splits.
        seed: Random seed for the splits.
    """
    return dataset(
        path,
        text=text,
        label=label,
        mask_polarity=mask_polarity,
        words=_read_words(Path(path).expanduser(), words),
        tokenizer=tokenizer,
        max_length=max_length,
        strength=strength,
        validation_share=validation_share,
        test_share=test_share,
        seed=seed,
    )


def _read_words(path: Path, words: Sequence[str] | str | None) -> list[str] | None:
    if words is None:
        return None
    if not isinstance(words, str):
        return [str(word) for word in words]
    file = (path if path.is_dir() else path.parent) / words
    if file.suffix == ".txt":
        if not file.is_file():
            raise DatasetNotFoundError(
                f"Expected a list of words at {file}, one a line, but there is none."
            )
        return [
            line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()
        ]
    return [word.strip() for word in words.split(",") if word.strip()]
