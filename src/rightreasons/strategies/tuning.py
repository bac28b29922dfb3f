"""Fine-tuning: a second, short fit from the weights of the first."""

from __future__ import annotations

from typing import Any

from torch import nn

from rightreasons.datasets import Dataset
from rightreasons.objectives import Objective
from rightreasons.strategies.stages import Stages
from rightreasons.train import Fit

__all__ = ["last_rate", "tuned"]

DEFAULT_RATE = 1e-3


def last_rate(history: list[dict[str, Any]], lr: float) -> float:
    """The rate the last epoch began with; that of its end is 0 with a cosine schedule.

    Args:
        history: Rows of the epochs, each with the rate after it.
        lr: The rate training began with.

    Example:
        >>> last_rate([{"lr": 0.05}, {"lr": 0.0}], lr=0.1)
        0.05
    """
    return float(history[-2]["lr"]) if len(history) > 1 else lr


def tuned(
    stages: Stages,
    model: nn.Module,
    objective: Objective,
    data: Dataset,
    first: Fit,
    *,
    epochs: int,
    lr: float | None,
) -> Fit:
    """Train on for some epochs at one rate: ``lr``, or the last one of the first fit."""
    rate = last_rate(first.history, float(stages.settings.get("lr", DEFAULT_RATE)))
    changes = {"epochs": epochs, "lr": lr or rate, "scheduler": "constant", "select": "none"}
    return stages.fit("tune", model, objective, data, **changes)
