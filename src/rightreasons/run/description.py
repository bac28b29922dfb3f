"""What ``results.json`` says about a run, and the table of the trials of a repair."""

from __future__ import annotations

import csv
import io
import logging
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rightreasons.core.files import library_versions, read_json, write_atomically, write_json
from rightreasons.datasets import Splits
from rightreasons.models import LoadedWeights
from rightreasons.models.own import is_own, short_name
from rightreasons.run.config import Config
from rightreasons.strategies import Once
from rightreasons.training.fit import Fit

__all__ = [
    "describe_fit",
    "describe_loading",
    "describe_run",
    "describe_strategy",
    "read_rows",
    "write_tried",
]

logger = logging.getLogger("rightreasons")


def describe_loading(loaded: LoadedWeights | None) -> None:
    """Log what was read from a file of weights, and which layer keeps its own."""
    if loaded is None:
        return
    logger.info("Loaded %d tensors from %s.", len(loaded.loaded), loaded.path)
    if loaded.skipped:
        logger.warning(
            "The head keeps random weights, since %s has none for this number of classes: %s.",
            loaded.path,
            ", ".join(loaded.skipped),
        )


def describe_run(
    config: Config,
    data: Splits,
    model: nn.Module,
    loaded: LoadedWeights | None,
    measured: dict[str, dict[str, float]],
) -> dict[str, Any]:
    """The results that every run has.

    Args:
        config: Configuration of the run.
        data: Its data.
        model: The model that was measured.
        loaded: The weights it began with, if they are from a file.
        measured: Values of metrics, by part of the data.
    """
    name = short_name(config.model) if is_own(config.model) else config.model.replace("-", "_")
    began = {}
    if loaded is not None:
        digest = sha256(loaded.path.read_bytes()).hexdigest()
        began = {"weights": {"file": str(loaded.path), "sha256": digest}}
    return {
        "format": 1,
        "data": config.data.replace("-", "_"),
        "data_settings": config.data_settings,
        "data_sha256": data.digest(),
        "card": asdict(data.card),
        "recipe": config.recipe.replace("-", "_"),
        "settings": config.settings,
        "model": name,
        "model_settings": config.model_settings,
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
        **began,
        "seed": config.seed,
        "metrics": measured,
        "versions": library_versions(),
        "threads": torch.get_num_threads(),
    }


def describe_fit(config: Config, fitted: Fit) -> dict[str, Any]:
    """The results that every training adds.

    Args:
        config: Configuration of the run.
        fitted: Result of its strategy.
    """
    return {
        **describe_strategy(config, fitted.history),
        "terms": fitted.weights,
        "training": config.training_results(),
        "selection": fitted.selection,
        "diagnosis": asdict(fitted.diagnosis),
        "seconds": fitted.seconds,
    }


def describe_strategy(config: Config, history: list[dict[str, Any]]) -> dict[str, Any]:
    """What a strategy of several fits adds; results of a single fit have none of these keys."""
    if isinstance(config.build_strategy(), Once):
        return {}
    keys = {"stage": "name", "epoch": "epochs", "seconds": "seconds", "accuracy": "accuracy"}
    stages = [
        {name: row[key] for key, name in keys.items() if key in row}
        for row, after in zip(history, [*history[1:], {"epoch": 1}], strict=True)
        if after["epoch"] == 1
    ]
    name = config.strategy.replace("-", "_")
    return {"strategy": name, "strategy_settings": config.strategy_settings, "stages": stages}


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of all trials that ended, in their order."""
    files = sorted((folder / "trials").glob("*/trial.json"))
    rows: list[dict[str, Any]] = [read_json(file) for file in files]
    return sorted(rows, key=lambda row: int(row["number"]))


def write_tried(folder: Path, chosen: int | None = None) -> None:
    """Write the table of all trials, as JSON and as CSV."""
    rows = read_rows(folder)
    write_json(folder / "tried.json", {"chosen": chosen, "trials": rows})
    names = dict.fromkeys(name for row in rows for name in row["values"])
    text = io.StringIO()
    plain = ("number", "method", "state", "keeps", "lr", "epochs", "seconds")
    writer = csv.writer(text)
    writer.writerow([*plain, "settings", *names, "reason"])
    for row in rows:
        settings = " ".join(f"{name}={value}" for name, value in row["settings"].items())
        values = [row["values"].get(name, "") for name in names]
        writer.writerow([*(row[name] for name in plain), settings, *values, row["reason"]])
    write_atomically(folder / "tried.csv", lambda file: file.write(text.getvalue().encode()))
