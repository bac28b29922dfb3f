"""The end of an epoch: what it came to, and whether its weights are the best so far."""

from __future__ import annotations

from typing import Any, Literal

from rightreasons.datasets import Dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.evaluation import evaluate, prepared_metrics
from rightreasons.training import Training

__all__ = ["SELECTIONS", "Selection", "finish_epoch", "prepared_selection"]

Selection = Literal["none", "accuracy", "swap_accuracy", "worst_group"]
SELECTIONS = {
    "none": None,
    "accuracy": ("accuracy", "accuracy"),
    "swap_accuracy": ("swap_accuracy", "swap_accuracy"),
    "worst_group": ("group_accuracy", "group_accuracy/worst"),
}


def prepared_selection(select: str, validation: Dataset | None) -> None:
    """Raise, before anything is trained, if weights cannot be selected in this way."""
    if select not in SELECTIONS:
        raise InvalidSettingError(
            f"Expected `select` to be one of {tuple(SELECTIONS)}, but got {select!r}."
        )
    chosen = SELECTIONS[select]
    if chosen is not None and validation is None:
        raise InvalidSettingError(
            f"Expected `validation` data to select by {select!r}, but got none."
        )
    if chosen is not None and validation is not None:
        prepared_metrics([chosen[0]], validation)


def finish_epoch(training: Training) -> dict[str, Any]:
    """Measure the epoch that is over, keep its weights if they are the best, begin the next."""
    position, select = training.position, training.settings["select"]
    training.share_buffers()
    means = position.means(training.fabric)
    row: dict[str, Any] = {
        "epoch": position.epoch + 1,
        "updates": (position.epoch + 1) * training.schedule.num_updates,
        "lr": training.scheduler.get_last_lr()[0],
        "parts": {n.removeprefix("parts/"): v for n, v in means.items() if n.startswith("parts/")},
        "weights": training.objective.weights,
        "pulls": position.pulls,
        **{name: means[name] for name in ["accuracy"] if name in means},
        "gradient_norm": means["gradient_norm"],
        "seconds": position.seconds,
    }
    if training.validation is not None:
        metric, key = SELECTIONS[select] or ("accuracy", "accuracy")
        measured = evaluate(
            training.model, training.validation, [*dict.fromkeys(["accuracy", metric])]
        )
        row["validation"] = {name: measured[name] for name in dict.fromkeys(["accuracy", key])}
        if select != "none" and measured[key] > position.best.get("value", -1.0):
            weights = {n: t.detach().cpu().clone() for n, t in training.model.state_dict().items()}
            position.best = {
                "epoch": position.epoch + 1,
                "value": measured[key],
                "weights": weights,
            }
    position.history.append(row)
    position.next_epoch()
    return row
