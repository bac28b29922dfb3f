"""A run: one configuration, trained, measured and kept in a folder others can read.

::

    config.yaml         what was asked for
    checkpoint.pt       where training is; `resume` goes on from it
    log.jsonl           one line an epoch
    model.safetensors   the weights
    results.json        what came out; its keys are in docs/reference/results.md
    examples.npz        some test samples with mask, prediction and input gradient
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import nn

from rightreasons import models
from rightreasons.checkpoint import (
    load_weights_into,
    writable_folder,
    write_atomically,
    write_json,
)
from rightreasons.datasets import Dataset, Splits, load
from rightreasons.errors import InvalidSettingError, RunNotFoundError
from rightreasons.evaluation import evaluate
from rightreasons.metrics import METRICS
from rightreasons.objectives import Objective
from rightreasons.objectives.recipes import RECIPES
from rightreasons.probe import Probe, placed
from rightreasons.process import launched_fabric, seeded
from rightreasons.train import Fit, fit

__all__ = ["Config", "Run", "evaluate_run", "load_config", "load_run", "train_run"]

NUM_EXAMPLES = 12


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything a run depends on; as `fit`'s arguments where the names are the same.

    Args:
        data: Name of the data set.
        recipe: Name of the recipe.
        model: Name of the model.
        data_dir: Where the data set's files are, if it needs any.
        data_settings: Of the data set. Its seed is the run's unless given here.
        settings: Of the recipe.
        model_settings: Of the model.
        metrics: Names of what to measure; None is every metric the data suit.
    """

    data: str
    recipe: str = "erm"
    model: str = "mlp"
    data_dir: str | None = None
    data_settings: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    model_settings: dict[str, Any] = field(default_factory=dict)
    metrics: list[str] | None = None
    epochs: int = 10
    batch_size: int = 250
    lr: float = 2e-3
    optimizer: str = "adam"
    scheduler: str = "cosine"
    seed: int = 0
    clip: float | None = None
    accumulate: int = 1
    select: str = "none"
    precision: str = "32-true"
    accelerator: str = "auto"
    devices: int = 1
    frozen_statistics: bool = False
    max_rows: int | None = None

    def load_data(self) -> Splits:
        """The data set this run is about."""
        settings = {"seed": self.seed, **self.data_settings}
        return load(self.data, data_dir=self.data_dir, **settings)

    def build_model(self, data: Splits) -> nn.Module:
        """The untrained model, for these data's classes, channels and size."""
        channels, *size = data.card.shape
        with seeded(self.seed):
            return models.create(
                self.model,
                classes=len(data.card.classes),
                channels=channels,
                size=tuple(size),
                **self.model_settings,
            )

    def build_objective(self) -> Objective:
        """The recipe with its settings."""
        return RECIPES.create(self.recipe, **self.settings).with_settings(
            frozen_statistics=self.frozen_statistics, max_rows=self.max_rows
        )


@dataclass(frozen=True)
class Run:
    """A finished run, read back from its folder."""

    folder: Path
    config: Config
    results: dict[str, Any]

    def load_model(self, data: Splits) -> nn.Module:
        """The trained model, in test mode."""
        model = self.config.build_model(data)
        load_weights_into(model, self.folder / "model.safetensors")
        return model.eval()


def train_run(
    config: Config,
    out: str | Path,
    *,
    resume: bool = False,
    data: Splits | None = None,
    progress: bool | None = None,
    tensorboard: bool = False,
    checkpoint_seconds: float = 60.0,
) -> dict[str, Any]:
    """Train, measure and write a run; give its results.

    Args:
        config: What to do.
        out: The run's folder.
        resume: Go on with the run in the folder, if there is one.
        data: The data, if they are loaded already.
        progress: As for `fit`.
        tensorboard: As for `fit`.
        checkpoint_seconds: As for `fit`.
    """
    objective = config.build_objective()
    for name in config.metrics or []:
        METRICS[name]
    data = data or config.load_data()
    model = config.build_model(data)
    folder = writable_folder(out)
    if not (folder / "config.yaml").exists():
        text = yaml.safe_dump(asdict(config), sort_keys=False)
        write_atomically(folder / "config.yaml", lambda file: file.write(text.encode()))
    fabric = launched_fabric(config.accelerator, config.devices, config.precision)
    fitted = fit(
        model,
        objective,
        data.train,
        validation=data.val,
        epochs=config.epochs,
        batch_size=config.batch_size,
        lr=config.lr,
        optimizer=config.optimizer,
        scheduler=config.scheduler,
        seed=config.seed,
        clip=config.clip,
        accumulate=config.accumulate,
        select=config.select,  # type: ignore[arg-type]
        precision=config.precision,
        out=folder,
        resume=resume,
        progress=progress,
        tensorboard=tensorboard,
        checkpoint_seconds=checkpoint_seconds,
        fabric=fabric,
    )
    parts: dict[str, Dataset | None] = {"test": data.test, "validation": data.val}
    measured = {
        name: evaluate(model, part, config.metrics, max_rows=config.max_rows)
        for name, part in parts.items()
        if part is not None
    }
    results = _results(config, data, model, fitted, measured)
    if fabric.is_global_zero:
        _write_examples(folder / "examples.npz", model, data.test)
        write_json(folder / "results.json", results)
    return results


def load_run(folder: str | Path) -> Run:
    """Read a finished run back."""
    path = Path(folder)
    config = load_config(path)
    try:
        results = json.loads((path / "results.json").read_text())
    except FileNotFoundError as error:
        raise RunNotFoundError(
            f"Expected a finished run in {path}, but it has no results.json. Finish it with "
            f"`rightreasons train --resume --out {path}`."
        ) from error
    return Run(path, config, results)


def load_config(folder: str | Path) -> Config:
    """Read what a run, finished or not, was asked to do."""
    path = Path(folder)
    try:
        config = yaml.safe_load((path / "config.yaml").read_text())
    except OSError as error:
        raise RunNotFoundError(
            f"Expected a run in {path}, but it has no config.yaml. Name the folder that was given "
            "to `rightreasons train --out`."
        ) from error
    known = {entry.name for entry in fields(Config)}
    unknown = sorted(set(config) - known)
    if unknown:
        raise InvalidSettingError(
            f"Expected the keys of {path / 'config.yaml'} among {', '.join(sorted(known))}; "
            f"but got {', '.join(unknown)}."
        )
    return Config(**config)


def evaluate_run(
    folder: str | Path,
    metrics: Sequence[str] | None = None,
    *,
    data_dir: str | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Measure a finished run again on its test data, with these metrics; nothing is written."""
    run = load_run(folder)
    config = (
        run.config if data_dir is None else Config(**{**asdict(run.config), "data_dir": data_dir})
    )
    data = config.load_data()
    model = run.load_model(data)
    chosen = list(metrics) if metrics else config.metrics
    values = evaluate(model, data.test, chosen, max_rows=config.max_rows, progress=progress)
    return {**run.results, "metrics": {"test": values}}


def _results(
    config: Config,
    data: Splits,
    model: nn.Module,
    fitted: Fit,
    measured: dict[str, dict[str, float]],
) -> dict[str, Any]:
    kept = ("epochs", "batch_size", "lr", "optimizer", "scheduler", "clip", "accumulate")
    versions = {name: metadata.version(name) for name in ("rightreasons", "torch", "numpy")}
    return {
        "format": 1,
        "data": config.data.replace("-", "_"),
        "data_settings": config.data_settings,
        "data_sha256": data.digest(),
        "card": asdict(data.card),
        "recipe": config.recipe.replace("-", "_"),
        "settings": config.settings,
        "terms": fitted.weights,
        "model": config.model.replace("-", "_"),
        "model_settings": config.model_settings,
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training": {name: getattr(config, name) for name in kept},
        "selection": fitted.selection,
        "diagnosis": asdict(fitted.diagnosis),
        "seed": config.seed,
        "seconds": fitted.seconds,
        "metrics": measured,
        "versions": {**versions, "python": platform.python_version()},
    }


def _write_examples(path: Path, model: nn.Module, data: Dataset) -> None:
    """Test samples spread over the classes, for pictures."""
    order = torch.argsort(data.labels, stable=True)
    rows = order[torch.linspace(0, len(order) - 1, min(NUM_EXAMPLES, len(order))).long()]
    batch = placed(data.take(rows), model)
    model.eval()
    probe = Probe(model, batch, needs_gradient=True, create_graph=False)
    probability, predicted = probe.logits.softmax(dim=1).max(dim=1)
    at_prediction = Probe(
        model, batch.replace(y=predicted), needs_gradient=True, create_graph=False
    )
    columns = {
        "x": batch.x,
        "y": batch.y,
        "index": rows,
        "prediction": predicted,
        "probability": probability,
        "attribution": at_prediction.gradient("logit"),
    }
    if batch.mask is not None:
        columns["mask"] = batch.mask
    arrays = {name: column.detach().cpu().numpy() for name, column in columns.items()}
    write_atomically(path, lambda file: np.savez_compressed(file, **arrays))  # type: ignore[arg-type]
