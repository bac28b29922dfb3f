"""Columns that tell the label: numeric inputs of a table, and what else is known of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rightreasons.audit.cause import Effect, swap_effect
from rightreasons.audit.findings import Finding
from rightreasons.audit.properties import predict_by_column
from rightreasons.audit.regions import Region
from rightreasons.audit.statistics import compare_with_permutations, presence_strengths
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Column, Dataset
from rightreasons.datasets.tables.reading import UNKNOWN
from rightreasons.errors import InvalidSettingError

__all__ = ["audit_columns", "audit_table"]

MOST_RECIPIENTS = 200
MOST_PLANTED = 20  # columns; the others tell less
SURE = 0.7


def audit_table(
    data: Dataset,
    model: nn.Module | None,
    rows: Tensor,
    halves: tuple[Tensor, Tensor],
    *,
    seed: int,
) -> list[Finding]:
    """Single columns of a table: how well each tells the label, and what planting it does.

    Args:
        data: Columns ``(N, D)``; the features of a category move together.
        model: The model; None to look at the data alone.
        rows: Rows of the audited samples.
        halves: Places of the searched samples and of those to plant on.
        seed: Random seed.
    """
    batch = data.take(rows)
    search, cause = halves
    columns = data.card.columns or tuple(
        Column(f"column {number}", number) for number in range(batch.x.shape[1])
    )
    strengths, p_values = _tell_label(
        [_as_values(batch.x[search], column) for column in columns], batch.y[search], seed
    )
    found = []
    for number in np.argsort(-strengths, kind="stable")[:MOST_PLANTED].tolist():
        column = columns[number]
        missing = _find_missing(batch.x, column)
        found.append(
            Finding(
                name=column.name,
                kind="column",
                tells_label=float(strengths[number]),
                p_value=float(p_values[number]),
                effect=_plant_column(model, data, rows, batch.y, search, cause, column, seed),
                prevalence=float(1 - missing.double().mean()),
                classes=data.card.classes,
                area=1 / len(columns),
                details=_missingness(missing[search], batch.y[search]),
                region=Region("column", column=column.first, features=max(1, len(column.values))),
            )
        )
    return found


def _as_values(x: Tensor, column: Column) -> NDArray[np.float64]:
    """What a small tree sees of a column: its number, or the number and features of its value."""
    features = x[:, column.features].double()
    if not column.values:
        return np.asarray(features[:, 0].numpy())
    return np.asarray(torch.cat([features.argmax(dim=1)[:, None], features], dim=1).numpy())


def _find_missing(x: Tensor, column: Column) -> Tensor:
    """Where a category has no value, or the one that stands for empty cells."""
    features = x[:, column.features]
    if not column.values:
        return features[:, 0].isnan()
    missing = features.sum(dim=1) == 0
    if UNKNOWN in column.values:
        missing |= features[:, column.values.index(UNKNOWN)] > 0
    return missing


def _missingness(missing: Tensor, y: Tensor) -> dict[str, float]:
    """How well it tells the label that a value is missing; nothing if none is."""
    if not bool(missing.any()):
        return {}
    presence = missing.double().numpy()[:, None]
    return {"missing": float(presence_strengths(presence, y.numpy()).max())}


def audit_columns(
    data: Dataset, columns: Mapping[str, Sequence[Any]], rows: Tensor, *, seed: int
) -> list[Finding]:
    """Columns that the model does not see: how well each value, or its absence, tells the label.

    Args:
        data: The samples.
        columns: Values of each column, one for each sample of the data.
        rows: Rows of the searched samples.
        seed: Random seed.
    """
    numbers = []
    for name, values in columns.items():
        if len(values) != len(data):
            raise InvalidSettingError(
                f"Expected {len(data)} values in the column {name!r}, one for each sample, but "
                f"got {len(values)}."
            )
        numbers.append(as_numbers(values)[rows.numpy()])
    strengths, p_values = _tell_label(numbers, data.labels[rows].cpu(), seed)
    return [
        Finding(
            name=name,
            kind="metadata",
            tells_label=float(strengths[number]),
            p_value=float(p_values[number]),
            prevalence=float(1 - np.isnan(numbers[number]).mean()),
            classes=data.card.classes,
        )
        for number, name in enumerate(columns)
    ]


def as_numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    """Numbers as they are, words by their rank; what is missing becomes NaN.

    Example:
        >>> as_numbers(["b", None, "a"]).tolist()
        [1.0, nan, 0.0]
    """
    missing = [value is None or value == "" or value != value for value in values]
    try:
        return np.array(
            [np.nan if gone else float(value) for value, gone in zip(values, missing, strict=True)]
        )
    except (TypeError, ValueError):
        words = sorted({str(v) for v, gone in zip(values, missing, strict=True) if not gone})
        rank = {word: float(number) for number, word in enumerate(words)}
        pairs = zip(values, missing, strict=True)
        return np.array([np.nan if gone else rank[str(value)] for value, gone in pairs])


def _tell_label(
    columns: list[NDArray[np.float64]], y: Tensor, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    stream = random_stream(seed, "audit", "columns")
    predicted = [predict_by_column(one, y, stream=stream, seed=seed) for one in columns]
    return compare_with_permutations(np.column_stack(predicted), y.numpy(), seed=seed)


def _plant_column(
    model: nn.Module | None,
    data: Dataset,
    rows: Tensor,
    y: Tensor,
    search: Tensor,
    cause: Tensor,
    column: Column,
    seed: int,
) -> Effect | None:
    """Give samples the column of another class."""
    if model is None:
        return None

    def alter(x: Tensor, places: Tensor, donors: Tensor) -> Tensor:
        del places
        changed = x.clone()
        changed[:, column.features] = data.take(rows[donors]).x[:, column.features]
        return changed

    recipients = _sure_and_right(model, data, rows, cause)
    effect, _ = swap_effect(
        model,
        lambda places: data.take(rows[places]),
        alter,
        recipients=recipients,
        donors=search,
        labels=y,
        seed=seed,
        advance=lambda amount: None,
    )
    return effect


def _sure_and_right(model: nn.Module, data: Dataset, rows: Tensor, cause: Tensor) -> Tensor:
    from rightreasons.audit.cause import ask

    batch = data.take(rows[cause])
    confidence, predicted = ask(model, batch.x).max(dim=1)
    right = predicted == batch.y.cpu()
    chosen = cause[right & (confidence >= SURE)]
    chosen = chosen if len(chosen) >= MOST_RECIPIENTS / 5 else cause[right]
    return chosen[torch.linspace(0, len(chosen) - 1, min(len(chosen), MOST_RECIPIENTS)).long()]
