"""Rows of numbers and categories: `dataset`."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from rightreasons.core.checks import check_choice
from rightreasons.datasets.dataset import Card, Column, InMemory, Splits, group_counts
from rightreasons.datasets.texts.reading import cell_name, read_rows, read_splits, sorted_names
from rightreasons.errors import DatasetCorruptError, InvalidSettingError
from rightreasons.types import Batch

__all__ = ["dataset"]

logger = logging.getLogger("rightreasons")

MISSING = {"", "?", "na", "n/a", "nan", "none", "null"}
MOST_VALUES = 200
FEW_WORDS = 0.1
"""A column of numbers is refused if at most this share of its filled cells is something else."""
UNKNOWN = "missing"
Missing = Literal["refuse", "fill", "drop"]


def dataset(
    source: object,
    *,
    label: str = "label",
    split: str = "split",
    masked: Sequence[str] = (),
    groups: Sequence[str] = (),
    categorical: Sequence[str] = (),
    drop: Sequence[str] = (),
    missing: Missing = "refuse",
    validation_share: float = 0.1,
    test_share: float = 0.2,
    seed: int = 0,
    card: Card | None = None,
) -> Splits:
    """Rows of a table with labels, and the columns that the model must not look at.

    ``source`` is a file (csv, parquet or JSON lines, also ``.gz``) or a folder with ``data.csv``.
    Or it is a dict of lists, a list of dicts, or a data set of Hugging Face.

    A column whose training values are all numbers becomes one feature with mean 0 and deviation 1
    in training. Any other column is a category: one feature for each of its training values, 1 for
    the value of the row. All features of a column move together. A value that training does not
    have is 0 in all of them, which is logged.

    Args:
        source: One of these.
        label: Name of the column of labels; the classes are its distinct values, sorted.
        split: Name of the column of splits; without such a column rows are split at random.
        masked: Columns that the model must not look at. They are features and masked in every row.
        groups: Columns whose values together make the groups; the label may be one of them.
        categorical: Columns of numbers that are categories, such as codes.
        drop: Columns to leave out.
        missing: What to do with empty cells, "?" and "NA": ``"refuse"`` them; ``"fill"`` numbers
            with the training mean, and categories with a value of their own; or ``"drop"`` rows.
        validation_share: Fraction for validation, if there are no splits.
        test_share: Fraction for the test, if there are no splits.
        seed: Random seed for the splits.
        card: Description of the data; names, columns and counts are filled in.

    Example:
        >>> rows = {"age": [1, 2, 3, 4] * 5, "sex": ["f", "m"] * 10, "label": [0, 1] * 10}
        >>> data = dataset(rows, masked=["sex"], groups=["sex"])
        >>> [column.name for column in data.card.columns], data.train.batch.mask[0]
        (['age', 'sex'], tensor([0., 1., 1.]))
    """
    check_choice("missing", missing, ("refuse", "fill", "drop"))
    rows = list(read_rows(source))
    if not rows:
        raise DatasetCorruptError("Expected at least one row, but got none.")
    every = list(dict.fromkeys(name for row in rows for name in row))
    rows = [{name: row.get(name) for name in every} for row in rows]  # what is not there is empty
    names = [name for name in every if name not in (label, split, *drop)]
    _check_columns(rows[0], label, [*masked, *groups, *categorical, *drop])
    unused = [name for name in (*masked, *categorical) if name not in names]
    if unused:
        raise InvalidSettingError(
            f"Expected masked and categorical columns to be features, but {unused[0]!r} is the "
            "label, the split or dropped."
        )
    if missing == "drop":
        rows = [row for row in rows if not any(_is_missing(row[name]) for name in (*names, label))]
    _refuse_missing(rows, [label], "refuse")
    _refuse_missing(rows, names, missing)
    classes = sorted_names(row[label] for row in rows)
    y = [classes.index(cell_name(row[label])) for row in rows]
    parts = read_splits(rows, split, y, validation_share, test_share, seed)
    is_train = torch.tensor([part == "train" for part in parts])
    columns, x = _features(rows, names, is_train, set(categorical), set(masked))
    group_names, group = _groups(rows, groups, label)
    mask = torch.zeros(x.shape[1])
    for column in columns:
        mask[column.features] = float(column.masked)
    card = replace(
        card or Card(name="table", description=f"{len(rows):,} rows.", shortcut=_shortcut(masked)),
        classes=classes,
        groups=group_names,
        columns=tuple(columns),
        valid_range=(float(x.min()), float(x.max())),
        train_group_counts=group_counts(group[is_train], len(group_names)),
    )
    whole = Batch(
        x=x,
        y=torch.tensor(y),
        mask=mask.expand_as(x).clone() if masked else None,
        group=group if groups else None,
    )
    return _split(whole, parts, card)


def _split(whole: Batch, parts: Sequence[str], card: Card) -> Splits:
    rows = {
        name: torch.tensor([n for n, one in enumerate(parts) if one == name], dtype=torch.long)
        for name in ("train", "val", "test")
    }
    for name in ("train", "test"):
        if not len(rows[name]):
            raise InvalidSettingError(
                f"Expected rows in the split {name!r}, but got none. Fill the column `split` with "
                "train, val and test."
            )
    val = InMemory(whole[rows["val"]], card) if len(rows["val"]) else None
    return Splits(InMemory(whole[rows["train"]], card), val, InMemory(whole[rows["test"]], card))


def _features(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    is_train: Tensor,
    categorical: set[str],
    masked: set[str],
) -> tuple[list[Column], Tensor]:
    columns: list[Column] = []
    features: list[Tensor] = []
    width = 0
    for name in names:
        cells = [row[name] for row in rows]
        numbers = None if name in categorical else _as_numbers(name, cells)
        column = Column(name, width, masked=name in masked)
        if numbers is not None:
            column, made = _standardise(column, numbers, is_train)
        else:
            column, made = _one_hot(column, cells, is_train)
        columns.append(column)
        features.append(made)
        width += made.shape[1]
    return columns, torch.cat(features, dim=1).float()


def _standardise(column: Column, numbers: Tensor, is_train: Tensor) -> tuple[Column, Tensor]:
    known = numbers[is_train & ~numbers.isnan()]
    mean = float(known.mean()) if len(known) else 0.0
    deviation = float(known.std(unbiased=False)) if len(known) else 0.0
    column = replace(column, mean=mean, deviation=deviation or 1.0)
    scaled = (numbers - column.mean) / column.deviation
    return column, torch.nan_to_num(scaled, nan=0.0)[:, None]


def _one_hot(column: Column, cells: Sequence[Any], is_train: Tensor) -> tuple[Column, Tensor]:
    words = [UNKNOWN if _is_missing(cell) else cell_name(cell) for cell in cells]
    values = sorted_names(word for word, one in zip(words, is_train.tolist(), strict=True) if one)
    if len(values) > MOST_VALUES:
        raise InvalidSettingError(
            f"Expected at most {MOST_VALUES} values of a category, but the column {column.name!r} "
            f"has {len(values)} in training. Leave it out: drop=[{column.name!r}]."
        )
    places = {value: place for place, value in enumerate(values)}
    made = torch.zeros(len(words), len(values), dtype=torch.float64)
    for row, word in enumerate(words):
        if word in places:
            made[row, places[word]] = 1
    unseen = int((made.sum(dim=1) == 0).sum())
    if unseen:
        logger.warning(
            "%d rows have a value of %r that training has not; it is no value for the model.",
            unseen,
            column.name,
        )
    return replace(column, values=values), made


def _groups(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], label: str
) -> tuple[tuple[str, ...], Tensor]:
    if not columns:
        return (), torch.full((len(rows),), -1)
    words = [
        ", ".join(
            cell_name(row[name]) if name != label else f"{label} {cell_name(row[name])}"
            for name in columns
        )
        for row in rows
    ]
    names = sorted_names(words)
    places = {name: place for place, name in enumerate(names)}
    return names, torch.tensor([places[word] for word in words])


def _check_columns(first: Mapping[str, Any], label: str, asked: Sequence[str]) -> None:
    for name in (label, *asked):
        if name not in first:
            raise InvalidSettingError(
                f"Expected the column {name!r}, but the table has {', '.join(map(str, first))}."
            )


def _refuse_missing(rows: Sequence[Mapping[str, Any]], names: Sequence[str], missing: str) -> None:
    counts = {name: sum(_is_missing(row[name]) for row in rows) for name in names}
    found = {name: count for name, count in counts.items() if count}
    words = ", ".join(f"{count} of {name!r}" for name, count in found.items())
    if found and missing == "refuse":
        raise DatasetCorruptError(
            f"Expected no empty cells, but got {words} in {len(rows)} rows. Say what to do with "
            'them: missing="fill" or missing="drop" (--set-data missing=fill).'
        )
    if found:
        logger.warning("Empty cells were filled: %s of %d rows.", words, len(rows))


def _is_missing(cell: object) -> bool:
    return cell is None or cell != cell or str(cell).strip().lower() in MISSING


def _as_numbers(name: str, cells: Sequence[Any]) -> Tensor | None:
    """The column as numbers, NaN where it is empty; None if it has words.

    Raises:
        DatasetCorruptError: Almost all cells are numbers, and one is none or is infinite.
    """
    numbers, strange = [], []
    for row, cell in enumerate(cells, start=1):
        try:
            number = math.nan if _is_missing(cell) else float(cell)
        except (TypeError, ValueError):
            number = math.inf
        numbers.append(number)
        if math.isinf(number):
            strange.append((row, cell))
    if not strange:
        return torch.tensor(numbers).double()
    if len(strange) <= FEW_WORDS * sum(not math.isnan(number) for number in numbers):
        row, cell = strange[0]
        raise DatasetCorruptError(
            f"Row {row}: expected a finite number in the column {name!r}, as in most rows, but got "
            f"{cell!r}. Mend the cell or leave it empty. If the column has categories, say so: "
            f"categorical=[{name!r}] (--set-data categorical={name})."
        )
    return None


def _shortcut(masked: Sequence[str]) -> str:
    return f"the columns {', '.join(masked)}" if masked else "unknown"
