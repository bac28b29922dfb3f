"""Texts from lists, tables and Hugging Face data sets: `dataset`."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from rightreasons.core.checks import check_choice
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.table import read_table
from rightreasons.datasets.splitting import assign_splits
from rightreasons.datasets.texts.spans import check_spans, find_words
from rightreasons.datasets.texts.splits import TextRow, Words, text_splits, words_for
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError

__all__ = [
    "cell_name",
    "dataset",
    "read_json_lines",
    "read_rows",
    "read_splits",
    "sorted_names",
]

TABLES = tuple(f"data.{end}" for end in ("csv", "csv.gz", "parquet", "jsonl", "jsonl.gz"))
SPLITS = {"train": "train", "val": "val", "validation": "val", "valid": "val", "dev": "val"}
SPLITS |= {"test": "test", "0": "train", "1": "val", "2": "test"}
POLARITIES = ("irrelevant", "relevant")


def dataset(
    source: object,
    *,
    text: str = "text",
    label: str = "label",
    split: str = "split",
    group: str = "group",
    spans: str = "spans",
    mask_polarity: str | None = None,
    words: Words | None = None,
    tokenizer: object = "words",
    max_length: int = 128,
    strength: float = 1.0,
    validation_share: float = 0.1,
    test_share: float = 0.2,
    seed: int = 0,
    card: Card | None = None,
) -> Splits:
    """Texts with labels, and what the model must not look at as spans or words.

    ``source`` is a file: csv, parquet or JSON lines, also ``.gz``. Or it is a folder with a file
    ``data.csv``, ``data.parquet`` or ``data.jsonl``. Or it is a dict of lists, a list of dicts, or
    a data set of Hugging Face, with or without splits. Each row has

    - a text and a label, names or numbers. The classes are the distinct labels, sorted;
    - optionally a split: ``train``, ``val`` or ``test``, or 0, 1, 2. Without the column, texts are
      split at random, each class alike;
    - optionally a group;
    - optionally spans: ``[[start, end], …]`` in characters, the end exclusive, or words of the
      text. In csv they are written as JSON. Empty or null means that nobody annotated the text;
    - optionally ``sha256``, the hash of the text that was annotated, which is then checked.

    Args:
        source: One of these.
        text: Name of the column of texts.
        label: Name of the column of labels.
        split: Name of the column of splits.
        group: Name of the column of groups.
        spans: Name of the column of spans.
        mask_polarity: What spans mark: ``"irrelevant"``, what the model must not look at, or
            ``"relevant"``, what it should look at; the mask is the rest then. Needed with spans.
        words: Words the model must not look at, wherever they stand; whole words, in any case. They
            are also the substitutes of masked tokens. A dict has one list for each class.
        tokenizer: ``"words"`` for the small nets; ``"minilm"``, the folder of a language model, or
            a fast tokenizer of transformers.
        max_length: Most tokens of a text; what is cut off is reported.
        strength: Value of the mask where the model must not look, in (0, 1].
        validation_share: Fraction for validation, if there are no splits.
        test_share: Fraction for the test, if there are no splits.
        seed: Random seed for the splits.
        card: Description of the data; names and counts are filled in.

    Example:
        >>> rows = {"text": ["good", "bad, jonah"] * 10, "label": ["pos", "neg"] * 10}
        >>> data = dataset(rows, words=["jonah"])
        >>> data.card.classes, len(data.train), data.card.text.substitutes
        (('neg', 'pos'), 14, (3,))

    Raises:
        DatasetNotFoundError: There is no such file.
        DatasetCorruptError: A row has no text or label, or spans that do not fit.
        InvalidSettingError: Spans without a polarity, or a slow tokenizer.
    """
    if mask_polarity is not None:
        check_choice("mask_polarity", mask_polarity, POLARITIES)
    raw = list(read_rows(source))
    if not raw:
        raise DatasetCorruptError("Expected at least one text, but got none.")
    missing = [name for name in (text, label) if name not in raw[0]]
    if missing:
        raise DatasetCorruptError(
            f"Expected a column {missing[0]!r}, but got {', '.join(map(str, raw[0]))}. Name yours "
            f"as text= or label= (--set-data text=NAME)."
        )
    nameless = [number for number, row in enumerate(raw, 1) if not cell_name(row.get(label))]
    if nameless:
        raise DatasetCorruptError(
            f"Row {nameless[0]}: expected a label in the column {label!r}, but got none. Fill it, "
            "or leave the row out."
        )
    classes = sorted_names(row.get(label) for row in raw)
    groups = sorted_names(row.get(group) for row in raw)
    splits = read_splits(
        raw, split, [classes.index(cell_name(row.get(label))) for row in raw], validation_share,
        test_share, seed,
    )  # fmt: skip
    rows = [
        TextRow(
            text=_text(row.get(text), number),
            label=classes.index(cell_name(row.get(label))),
            split=part,
            group=groups.index(cell_name(row.get(group))) if cell_name(row.get(group)) else -1,
            spans=_read_spans(row, spans, str(row.get(text)), f"Row {number}"),
        )
        for number, (row, part) in enumerate(zip(raw, splits, strict=True), start=1)
    ]
    if mask_polarity is None and any(row.spans is not None for row in rows):
        raise InvalidSettingError(
            'Expected `mask_polarity` beside spans: "irrelevant" if the model must not look at '
            'them, "relevant" if it should (--set-data mask_polarity=irrelevant). Nobody said.'
        )
    by_class = _words_by_number(words, classes)
    _refuse_strange_words(rows, by_class)
    card = card or _default_card(len(rows), words)
    return text_splits(
        rows,
        replace(card, classes=classes, groups=groups),
        tokenizer=tokenizer,
        max_length=max_length,
        words=by_class,
        relevant=mask_polarity == "relevant",
        strength=strength,
    )


def _refuse_strange_words(rows: Sequence[TextRow], words: Words | None) -> None:
    """A list of which no text has a word would mask nothing, and nobody would notice."""
    if words and not any(find_words(row.text, words_for(row.label, words)) for row in rows):
        raise InvalidSettingError(
            "Expected `words` that occur in the texts, but no text has one of them (for its own "
            "class, if each class has a list). Whole words count, in upper or lower case."
        )


def read_rows(source: object) -> Iterator[Mapping[str, Any]]:
    """Yield rows as dicts, whatever the source; see `dataset`."""
    if isinstance(source, str | PathLike):
        yield from _read_file(Path(source).expanduser())
    elif isinstance(source, Mapping):
        parts = list(source.values())
        if parts and all(hasattr(part, "column_names") for part in parts):  # splits by name
            for name, part in source.items():
                yield from ({"split": name, **row} for row in part)
            return
        lengths = {len(part) for part in parts}
        if len(lengths) != 1:
            raise DatasetCorruptError(
                f"Expected columns of one length, but got {', '.join(map(str, sorted(lengths)))}."
            )
        for cells in zip(*parts, strict=True):
            yield dict(zip(source, cells, strict=True))
    elif isinstance(source, Iterable):
        for row in source:
            if not isinstance(row, Mapping):
                raise DatasetCorruptError(
                    f"Expected rows as dicts with `text` and `label`, but got {type(row).__name__}."
                )
            yield row
    else:
        raise DatasetCorruptError(
            "Expected a file, a dict of lists, a list of dicts or a data set of Hugging Face, but "
            f"got {type(source).__name__}."
        )


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines, which may be packed by gzip."""
    opened = gzip.open if path.suffix == ".gz" else open
    number = 0
    try:
        with opened(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    yield dict(json.loads(line))
                number += 1
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise DatasetCorruptError(
            f"Expected {path} to hold one JSON object a line, but line {number + 1} says: {error}."
        ) from error


def _read_file(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.is_dir():
        found = [path / name for name in TABLES if (path / name).is_file()]
        if len(found) != 1:
            got = " and ".join(one.name for one in found) or "none"
            raise DatasetNotFoundError(
                f"Expected one table of {', '.join(TABLES)} in {path}, but got {got}."
            )
        path = found[0]
    if not path.is_file():
        raise DatasetNotFoundError(f"Expected a table of texts at {path}, but there is none.")
    if ".jsonl" in path.suffixes or ".json" in path.suffixes:
        yield from read_json_lines(path)
        return
    header, rows = read_table(path)
    for number, cells in rows:
        if len(cells) != len(header):
            raise DatasetCorruptError(
                f"Expected {len(header)} cells in row {number} of {path}, but got {len(cells)}."
            )
        yield dict(zip(header, cells, strict=True))


def read_splits(
    raw: Sequence[Mapping[str, Any]],
    column: str,
    labels: Sequence[int],
    validation_share: float,
    test_share: float,
    seed: int,
) -> list[str]:
    """The split of each row: its cell, or drawn at random if there is no such column.

    Args:
        raw: The rows.
        column: Name of the column.
        labels: Number of each row's class.
        validation_share: Fraction for validation, if splits are drawn.
        test_share: Fraction for the test, if splits are drawn.
        seed: Random seed for the draw.
    """
    if column not in raw[0]:
        return assign_splits(
            torch.tensor(labels),
            test_share=test_share,
            validation_share=validation_share,
            stream=random_stream(seed, "texts", "split"),
        )
    names = [SPLITS.get(cell_name(row.get(column)).lower(), "") for row in raw]
    if "" in names:
        number = names.index("")
        raise DatasetCorruptError(
            f"Expected the split train, val or test (or 0, 1, 2) in row {number + 1}, but got "
            f"{raw[number].get(column)!r}."
        )
    return names


def _read_spans(
    row: Mapping[str, Any], column: str, text: str, where: str
) -> list[tuple[int, int]] | None:
    given = row.get(column)
    stated = row.get("sha256")
    if stated and hashlib.sha256(text.encode()).hexdigest() != stated:
        raise DatasetCorruptError(
            f"{where}: expected the text that was annotated, whose sha256 begins with "
            f"{str(stated)[:12]}, but got another. Annotate this one, or bring the first back."
        )
    if isinstance(given, str) and given.strip():
        try:
            given = json.loads(given)
        except ValueError as error:
            raise DatasetCorruptError(
                f"{where}: expected spans as JSON, [[start, end], …], but got {given!r}."
            ) from error
    if given is None or (isinstance(given, Sequence) and not given):  # also ""
        return None
    if isinstance(given, Sequence) and all(isinstance(one, str) for one in given):
        return find_words(text, given)
    try:
        return check_spans(given, text, where)
    except InvalidSettingError as error:
        raise DatasetCorruptError(str(error)) from error


def _words_by_number(words: Words | None, classes: Sequence[str]) -> Words | None:
    if not isinstance(words, Mapping):
        return [words] if isinstance(words, str) else words
    unknown = [name for name in words if str(name) not in classes]
    if unknown:
        raise InvalidSettingError(
            f"Expected `words` for the classes {', '.join(classes)}, but got {unknown[0]!r}."
        )
    return {classes.index(str(name)): some for name, some in words.items()}


def _text(value: object, number: int) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DatasetCorruptError(f"Row {number}: expected a text, but got {value!r}.")
    return value


def cell_name(value: object) -> str:
    """A label or group as a name; empty if there is none."""
    return "" if value is None or value != value else str(value).strip()


def sorted_names(values: Iterable[object]) -> tuple[str, ...]:
    """Distinct names, by number if all are numbers."""
    names = {cell_name(value) for value in values} - {""}
    numeric = all(name.isdecimal() for name in names)
    return tuple(sorted(names, key=(lambda name: (int(name), name)) if numeric else None))


def _default_card(num_texts: int, words: Words | None) -> Card:
    return Card(
        name="text",
        description=f"{num_texts:,} texts.",
        shortcut="the words of a list" if words is not None else "what the masks mark",
    )
