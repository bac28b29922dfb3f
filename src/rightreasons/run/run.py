"""A run: one configuration, trained, measured and kept in a folder others can read.

::

    config.yaml         the configuration
    checkpoint.pt       the state of the training, from which `resume` goes on
    log.jsonl           one line per epoch
    model.safetensors   the weights
    results.json        the results; their keys are in docs/reference/results.md
    examples.npz        some test samples with mask, prediction and input gradient
    certificate.json    what `certify_run` proved about the model

A strategy of several fits has a folder for each, see `Stages`, in place of a checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from torch import nn

from rightreasons.certification import Certificate, certify, certify_substitutes
from rightreasons.core.checks import check_choice
from rightreasons.core.files import (
    load_weights_into,
    writable_folder,
    write_json,
)
from rightreasons.datasets import Dataset, Splits
from rightreasons.errors import CheckpointMismatchError, InvalidSettingError
from rightreasons.run.config import (
    Config,
    load_config,
    read_results,
    refuse_other_config,
    save_config,
)
from rightreasons.run.description import describe_fit, describe_loading, describe_run
from rightreasons.run.examples import write_examples
from rightreasons.strategies.strategy import is_begun
from rightreasons.training.distributed import hold, launch_fabric
from rightreasons.training.evaluate import evaluate, evaluate_parts, prepare_metrics

__all__ = [
    "SPLITS",
    "Run",
    "Split",
    "certify_run",
    "evaluate_run",
    "load_run",
    "train_run",
]


Split = Literal["test", "validation"]
SPLITS: tuple[Split, ...] = ("test", "validation")

logger = logging.getLogger("rightreasons")


@dataclass(frozen=True)
class Run:
    """A finished run, read back from its folder.

    Args:
        folder: Folder of the run.
        config: Configuration of the run.
        results: Contents of ``results.json``.
    """

    folder: Path
    config: Config
    results: dict[str, Any]

    @classmethod
    def open(cls, folder: str | Path, data_dir: str | None = None) -> Self:
        """Read a finished run; its data and its model are loaded when they are first used.

        Args:
            folder: Folder of the run.
            data_dir: Folder with the data set's files, if it is not the run's.
        """
        path = Path(folder)
        config = load_config(path)
        results = read_results(path)
        config = config if data_dir is None else replace(config, data_dir=data_dir)
        return cls(path, config, results)

    @cached_property
    def data(self) -> Splits:
        """The run's data, loaded once; data with other classes or in another order are refused."""
        data = self.config.load_data()
        then = tuple(self.results.get("card", {}).get("classes", data.card.classes))
        if then != data.card.classes:
            raise CheckpointMismatchError(
                f"Expected the classes of {self.folder}, {', '.join(map(str, then))}, in this "
                f"order, but the data have {', '.join(data.card.classes)}. Labels would stand for "
                "other classes. Give them the names they had."
            )
        return data

    @cached_property
    def model(self) -> nn.Module:
        """The run's model, loaded once; see `load_model`."""
        return self.load_model(self.data)

    def split(self, name: Split, *, purpose: str) -> Dataset:
        """A split of the data; ``purpose`` ends the error's clause if there is no such split."""
        split = self.data.test if name == "test" else self.data.val
        if split is None:
            raise InvalidSettingError(
                f"Expected a run with validation data to {purpose}, but {self.folder} has none. "
                'Use split="test" (--split test).'
            )
        return split

    def compare_digest(self) -> str:
        """Give the hash of the data, with a warning if they are not those of the run."""
        digest = self.data.digest()
        then = self.results.get("data_sha256", "unknown")
        if digest != then:
            logger.warning(
                "The data are not those the run was trained and measured on: SHA-256 %s, then %s.",
                digest[:12],
                then[:12],
            )
        return digest

    def load_model(self, data: Splits) -> nn.Module:
        """The trained model, as its strategy uses it, in test mode."""
        model = self.config.build_model(data)
        load_weights_into(model, self.folder / "model.safetensors")
        return self.config.build_strategy().deployed(model.eval(), self.folder)


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
    """Train a model, measure it and write a run; give its results.

    Args:
        config: Configuration of the run.
        out: Folder of the run.
        resume: Whether to go on with the run in the folder, if there is one.
        data: The data, if they are loaded already.
        progress: Whether to show live lines; None does so on a terminal.
        tensorboard: Whether to write for TensorBoard too.
        checkpoint_seconds: Seconds between two checkpoints.
    """
    objective, strategy = config.build_objective(), config.build_strategy()
    data = data or config.load_data()
    config = config.for_data(data)
    parts = {"test": data.test, "validation": data.val, **data.more_tests}
    metrics = {split: config.build_metrics(split, part) for split, part in parts.items()}
    for split, part in parts.items():
        if part is not None and metrics[split] is not None:
            prepare_metrics(metrics[split], part)
    model, loaded = config.start_model(data)
    describe_loading(loaded)
    folder = writable_folder(out)
    with hold(folder):  # two trainings would mix their files
        if resume and is_begun(folder):
            refuse_other_config(folder, config)
        elif not is_begun(folder):
            save_config(folder, config)
        fabric = launch_fabric(config.accelerator, config.devices, config.precision)
        fitted = strategy.fit(
            model,
            objective,
            data,
            **config.to_arguments(),
            out=folder,
            resume=resume,
            progress=progress,
            tensorboard=tensorboard,
            checkpoint_seconds=checkpoint_seconds,
            fabric=fabric,
        )
        model = strategy.deployed(model, folder)
        limit, show = config.max_rows, bool(progress)
        measured = evaluate_parts(model, parts, metrics, max_rows=limit, progress=show)
        results = {
            **describe_run(config, data, model, loaded, measured),
            **describe_fit(config, fitted),
        }
        if fabric.is_global_zero:
            write_examples(folder / "examples.npz", model, data.test)
            write_json(folder / "results.json", results)
        return results


def load_run(folder: str | Path) -> Run:
    """Read a finished run back."""
    return Run.open(folder)


def evaluate_run(
    folder: str | Path,
    metrics: Sequence[str] | None = None,
    *,
    metric_settings: Mapping[str, dict[str, Any]] | None = None,
    data_dir: str | None = None,
    max_samples: int | None = None,
    max_rows: int | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Measure a finished run again on its test data; nothing is written.

    Args:
        folder: Folder of the run.
        metrics: Names of metrics, with the settings the run gave them; None is the run's metrics.
        metric_settings: Settings of metrics by name, in place of the run's.
        data_dir: Folder with the data set's files, if it is not the run's.
        max_samples: Number of samples to measure; None leaves it to each metric.
        max_rows: Most rows in any pass; None is the run's, or else what fits a memory budget.
        progress: Whether to show a bar.

    Returns:
        The run's results with the new values.
    """
    run = Run.open(folder, data_dir)
    config, model = run.config, run.model
    settings = {**config.metric_settings, **(metric_settings or {})}
    config = replace(config, metric_settings=settings)
    if metrics:
        given = {name: settings[name] for name in metrics if name in settings}
        unread = sorted(set(metric_settings or {}) - set(metrics))
        given |= {name: settings[name] for name in unread}  # refused below, by name
        config = replace(config, metrics=list(metrics), metric_settings=given)
    values = evaluate(
        model,
        run.data.test,
        config.build_metrics("test", run.data.test),
        max_samples=max_samples,
        max_rows=config.max_rows if max_rows is None else max_rows,
        progress=progress,
    )
    return {**run.results, "data_sha256": run.compare_digest(), "metrics": {"test": values}}


def certify_run(
    folder: str | Path,
    *,
    epsilon: float | None,
    method: Literal["ibp", "crown", "auto", "enumeration", "bounds"] = "auto",
    split: Split = "test",
    data_dir: str | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    **settings: Any,
) -> Certificate:
    """Certify the model of a finished run and write the certificate.

    Args:
        folder: Folder of the run.
        epsilon: How far masked features may move, in input units; None is the full range.
        method: How bounds are computed, see `certify`. ``"enumeration"`` and ``"bounds"`` try
            substitutes of masked words or values, see `certify_substitutes`.
        split: The part of the data.
        data_dir: Folder with the data set's files, if it is not the run's.
        out: The file to write; None is ``certificate.json`` in the run's folder.
        progress: Whether to show a bar.
        settings: Further settings of `certify`.
    """
    run = Run.open(folder, data_dir)
    split = check_choice("split", split, SPLITS)
    part = run.split(split, purpose="certify on them")
    path = run.folder / "certificate.json" if out is None else Path(out)
    writable_folder(path.parent)
    with hold(run.folder if out is None else path):
        model = run.model
        run.compare_digest()
        if method in ("enumeration", "bounds"):
            certificate = certify_substitutes(
                model, part, method=method, progress=progress, **settings
            )
        else:
            settings |= {"epsilon": epsilon, "method": method}
            certificate = certify(model, part, progress=progress, **settings)
        certificate = replace(certificate, settings={**certificate.settings, "split": split})
        certificate.to_json(path)
        return certificate
