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
from rightreasons.audit.statistics import compare_with_permutations
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Dataset
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
        data: Numeric columns ``(N, D)``.
        model: The model; None to look at the data alone.
        rows: Rows of the audited samples.
        halves: Places of the searched samples and of those to plant on.
        seed: Random seed.
    """
    batch = data.take(rows)
    search, cause = halves
    names = [f"column {number}" for number in range(batch.x.shape[1])]
    strengths, p_values = _tell_label(
        [batch.x[search, number].double().numpy() for number in range(len(names))],
        batch.y[search],
        seed,
    )
    found = []
    for number in np.argsort(-strengths, kind="stable")[:MOST_PLANTED].tolist():
        effect = _plant_column(model, data, rows, batch.y, search, cause, number, seed)
        found.append(
            Finding(
                name=names[number],
                kind="column",
                tells_label=float(strengths[number]),
                p_value=float(p_values[number]),
                effect=effect,
                classes=data.card.classes,
                area=1 / len(names),
                region=Region("column", column=number),
            )
        )
    return found


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
    column: int,
    seed: int,
) -> Effect | None:
    """Give samples the column of another class."""
    if model is None:
        return None

    def alter(x: Tensor, places: Tensor, donors: Tensor) -> Tensor:
        del places
        changed = x.clone()
        changed[:, column] = data.take(rows[donors]).x[:, column]
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
