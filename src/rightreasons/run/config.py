"""The configuration of a run, written to ``config.yaml``; the readers of it and of the results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

import torch
import yaml
from torch import nn

from rightreasons import models
from rightreasons.core.checks import Registry, check_names, check_types
from rightreasons.core.files import (
    Unreadable,
    check_file,
    plain_values,
    read_json,
    translate_parser_errors,
    write_atomically,
)
from rightreasons.datasets import Dataset, Splits, load
from rightreasons.errors import CheckpointMismatchError, InvalidSettingError, RunNotFoundError
from rightreasons.metrics import Metric, create_metric, suitable
from rightreasons.models import LoadedWeights, load_weights
from rightreasons.models.own import absolute_name, check_outputs, class_number, is_own
from rightreasons.objectives import Objective
from rightreasons.objectives.recipes import RECIPES
from rightreasons.probe.probe import move_to_model
from rightreasons.run.shortcuts import COLOUR, read_shortcuts, with_masks
from rightreasons.strategies import STRATEGIES, Strategy
from rightreasons.training.distributed import seeded
from rightreasons.training.settings import DEFAULTS, LATER, TrainingSettings, setting

__all__ = [
    "AS_IT_IS",
    "Config",
    "load_config",
    "parse_yaml",
    "read_results",
    "read_yaml",
    "refuse_other_config",
    "save_config",
]

AS_IT_IS = "as it is"
"""Recipe of a model that was not trained here, see `adopt_run`."""
YAML_BYTES, DEEPEST, FORMAT = 1 << 20, 50, 1
REQUIRED: dict[str, Any] = {"data": str, "recipe": str, "model": str, "seed": int, "metrics": dict}
OPTIONAL: dict[str, Any] = {
    "data_sha256": str,
    "num_parameters": int,
    "seconds": float | int,
    "threads": int,
    **dict.fromkeys(("card", "data_settings", "diagnosis", "model_settings", "selection"), dict),
    **dict.fromkeys(("settings", "terms", "training", "versions", "weights"), dict),
}


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a run trains and measures: data, model, recipe, strategy and metrics.

    Args:
        data: Name of the data set.
        recipe: Name of the recipe.
        model: Name of the model, or of your own as ``path.py:factory`` or ``package.module:name``.
            ``"auto"`` is that of `default_model` for the data's shape.
        weights: File with the weights to begin with, here or in ``data_dir``; None draws them.
        data_dir: Folder with the data set's files, if it needs any.
        data_settings: Settings of the data set. Its seed is the run's unless given here.
        masks: Folders of masks that replace those of the data, or files of
            `rightreasons annotate --rest` for training data, joined; see `with_masks`.
        mask_polarity: What is white in masks of folders that do not say it.
        settings: Settings of the recipe.
        model_settings: Settings of the model.
        metrics: Names of what to measure; None is every metric the data suit.
        metric_settings: Settings of metrics by name, for some of those that are measured. All
            take ``max_samples`` too, see `Metric.limit`.
        validation_metrics: Names of what to measure on validation data; None is the same as on
            test data. A short list saves time where ``metrics`` are slow.
        strategy: Name of the strategy; ``"once"`` is one fit.
        strategy_settings: Settings of the strategy.
    """

    data: str
    recipe: str = "erm"
    model: str = "auto"
    weights: str | None = None
    data_dir: str | None = None
    data_settings: dict[str, Any] = field(default_factory=dict)
    masks: list[str] = field(default_factory=list)
    mask_polarity: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    model_settings: dict[str, Any] = field(default_factory=dict)
    metrics: list[str] | None = None
    metric_settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    validation_metrics: list[str] | None = None
    strategy: str = "once"
    strategy_settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Config(TrainingSettings, Choices):
    """Everything a run depends on: `Choices`, `TrainingSettings` and two settings of the objective.

    A dataclass takes the fields of its last base first, so ``config.yaml`` begins with the data.

    Args:
        frozen_statistics: Penalise the model as at test time, see `Objective`.
        max_rows: Most rows in a stacked pass of altered copies; None fits a memory budget.
    """

    frozen_statistics: bool = setting(
        False, "Penalise the model as at test time (BatchNorm, dropout)."
    )
    max_rows: int | None = setting(
        None, "Most rows in a stacked pass; as many as memory allows if not given."
    )

    def __post_init__(self) -> None:
        for entry in fields(self):  # so that a configuration is what its file says
            object.__setattr__(self, entry.name, plain_values(getattr(self, entry.name)))
        for name, value in check_types(self).items():
            object.__setattr__(self, name, value)

    def with_whole_paths(self) -> Self:
        """The same configuration with whole paths: data, masks, the model's code, the weights."""

        def whole(path: Any) -> Any:
            return path and str(Path(path).expanduser().resolve())

        masks = [path if path == COLOUR else whole(path) for path in self.masks]
        weights = models.find_weights(self.weights, self.data_dir)
        places = {"data_dir": whole(self.data_dir), "weights": whole(weights)}
        return replace(self, **places, masks=masks, model=absolute_name(self.model))

    def for_data(self, data: Splits) -> Config:
        """The same configuration, with what it leaves open chosen by the data.

        These are the model, the batch size and the number of epochs. ``config.yaml`` and the
        results have the values that were chosen.
        """
        config = self.for_samples(len(data.train))
        if config.model != "auto":
            return config
        name, settings = models.default_model(data.card.shape, text=data.card.text is not None)
        return replace(config, model=name, model_settings={**settings, **self.model_settings})

    def load_data(self) -> Splits:
        """Load the data set, with the run's seed unless the settings have another."""
        _refuse_reserved("data_settings", self.data_settings, ("name", "data_dir"))
        settings = {"seed": self.seed, **self.data_settings}
        data = load(self.data, data_dir=self.data_dir, **settings)
        return with_masks(data, read_shortcuts(self.masks, self.mask_polarity))

    def build_model(self, data: Splits) -> nn.Module:
        """Build the untrained model for the classes, channels and size of the data."""
        reserved = ("name", "classes", "channels", "size", "vocabulary")
        _refuse_reserved("model_settings", self.model_settings, reserved)
        chosen, card = self.for_data(data), data.card
        settings = dict(chosen.model_settings)
        if "positive" in settings:
            settings["positive"] = class_number(card.classes, settings["positive"])
        channels, *size = card.shape
        shape: dict[str, Any] = {"channels": channels, "size": tuple(size)}
        if card.text is not None:
            shape["vocabulary"] = card.text.vocabulary
        with seeded(self.seed):
            model = models.create(chosen.model, classes=len(card.classes), **shape, **settings)
        if is_own(self.model):
            some = move_to_model(data.train.take(torch.arange(min(2, len(data.train)))), model)
            check_outputs(model, some.x, card.classes, self.model, some.inputs)
        return model

    def start_model(self, data: Splits) -> tuple[nn.Module, LoadedWeights | None]:
        """Build the model that training begins with, and say what was loaded into it."""
        model = self.build_model(data)
        weights = models.find_weights(self.weights, self.data_dir)
        return model, None if weights is None else load_weights(model, weights)

    def build_objective(self) -> Objective:
        """Build the objective of the recipe."""
        _refuse_other_kind("recipe", self.recipe, RECIPES, STRATEGIES)
        return RECIPES.create(self.recipe, **self.settings).with_settings(
            frozen_statistics=self.frozen_statistics, max_rows=self.max_rows
        )

    def training_results(self) -> dict[str, Any]:
        """What ``training`` in the results lists; seed and selection have keys of their own."""
        names = [*self.to_arguments(), "frozen_statistics", "max_rows"]
        elsewhere = ["seed", "select", "accelerator"]
        elsewhere += [name for name in LATER if getattr(self, name) == getattr(DEFAULTS, name)]
        return {name: getattr(self, name) for name in names if name not in elsewhere}

    def build_strategy(self) -> Strategy:
        """Build the strategy."""
        _refuse_other_kind("strategy", self.strategy, STRATEGIES, RECIPES)
        return STRATEGIES.create(self.strategy, **self.strategy_settings)

    def build_metrics(
        self, split: str = "test", data: Dataset | None = None
    ) -> list[Metric | str] | None:
        """Build the metrics of a split; None if none are named and all have their defaults.

        Args:
            split: Name of the part of the data.
            data: The part itself. With it, settings alone may be given: the metrics are then
                those that suit the data, and those with settings.
        """
        if self.metrics is None and self.metric_settings and data is not None:
            named = dict.fromkeys([metric.name for metric in suitable(data)])
            return replace(self, metrics=[*(named | self.metric_settings)]).build_metrics(split)
        on_validation = self.metrics if self.validation_metrics is None else self.validation_metrics
        known = {*(self.metrics or ()), *(on_validation or ())}
        unknown = sorted(set(self.metric_settings) - known)
        if unknown:
            raise InvalidSettingError(
                f"Expected `metric_settings` of metrics that are measured, but got "
                f"{', '.join(unknown)}. Name them in `metrics`."
            )
        names = on_validation if split == "validation" else self.metrics
        if names is None:
            return None
        return [create_metric(name, **self.metric_settings.get(name, {})) for name in names]


def _refuse_reserved(what: str, settings: dict[str, Any], reserved: tuple[str, ...]) -> None:
    """Raise if settings name what the run itself or its data say."""
    given = [name for name in reserved if name in settings]
    if given:
        raise InvalidSettingError(
            f"Expected `{what}` without {', '.join(given)}, which the run's data and options say. "
            "Leave it out."
        )


def _refuse_other_kind(kind: str, name: str, known: Registry[Any], others: Registry[Any]) -> None:
    """Raise if a recipe is called a strategy, or a strategy a recipe."""
    if name not in known and name in others:
        raise InvalidSettingError(
            f"Expected a {kind}, but {name!r} is a {others.kind}. Use --{others.kind} {name} "
            f"({others.kind}={name!r} in Python)."
        )


def save_config(folder: Path, config: Config) -> None:
    """Write ``config.yaml``; its paths are whole, so that they hold in every folder."""
    text = yaml.safe_dump(asdict(config.with_whole_paths()), sort_keys=False)
    write_atomically(folder / "config.yaml", lambda file: file.write(text.encode()))


def load_config(folder: str | Path) -> Config:
    """Read the configuration of a run, finished or not."""
    path = Path(folder) / "config.yaml"
    config = _read_file(
        path,
        read_yaml,
        missing=f"Expected a run in {path.parent}, but it has no config.yaml. Name the folder that "
        "was given to `rightreasons train --out`, or to `rightreasons adopt` with your own model.",
    )
    if not isinstance(config, dict) or "data" not in config:
        raise _unreadable(path, "it has no `data`")
    check_names(f"the keys of {path}", map(str, config), sorted(one.name for one in fields(Config)))
    try:
        return Config(**config)
    except InvalidSettingError as error:
        raise InvalidSettingError(f"{path}: {error}") from error


def refuse_other_config(folder: Path, config: Config) -> None:
    """Raise if the run in a folder has another configuration; the machine may differ."""
    machine = ("accelerator", "data_dir", "devices", "max_rows")
    before, now = asdict(load_config(folder)), asdict(config.with_whole_paths())
    other = [
        f"{name} {before[name]!r}, now {now[name]!r}"
        for name in now
        if name not in machine and before[name] != now[name]
    ]
    if other:
        raise CheckpointMismatchError(
            f"Expected to resume the run in {folder} as it was begun, but got {'; '.join(other)}. "
            "Use the same settings, or another folder."
        )


def read_results(folder: Path) -> dict[str, Any]:
    """Read the results of a finished run, whose keys have the types that others rely on."""
    results: dict[str, Any] = _read_file(
        folder / "results.json",
        read_json,
        missing=f"Expected a finished run in {folder}, but it has no results.json. Finish it with "
        f"`rightreasons train --resume --out {folder}`.",
    )
    _refuse_other_results(folder, results)
    return results


def _refuse_other_results(path: Path, results: object) -> None:
    if not isinstance(results, dict) or results.get("format", FORMAT) != FORMAT:
        found = results.get("format") if isinstance(results, dict) else type(results).__name__
        raise RunNotFoundError(
            f"Expected results of format {FORMAT} in {path / 'results.json'}, but got {found}. "
            "Train the run again with this version."
        )
    wrong = [name for name, kind in REQUIRED.items() if not isinstance(results.get(name), kind)]
    wrong += [
        name
        for name, kind in OPTIONAL.items()
        if results.get(name) is not None and not isinstance(results[name], kind)
    ]
    if wrong:
        raise RunNotFoundError(
            f"Expected the results of a run in {path / 'results.json'}, but these keys are missing "
            f"or of another type: {', '.join(wrong)}. Train the run again."
        )


def parse_yaml(text: str) -> Any:
    """Parse YAML of plain values; aliases are refused, since few of them fill a memory."""
    with translate_parser_errors():
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise Unreadable(f"it has an alias, *{event.anchor}; write the value itself")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise Unreadable("it is nested too deep")
        return yaml.safe_load(text)


def read_yaml(path: Path) -> Any:
    """Read a YAML file in UTF-8."""
    check_file(path, limit=YAML_BYTES)
    with translate_parser_errors():
        return parse_yaml(path.read_text(encoding="utf-8"))


def _read_file(path: Path, read: Callable[[Path], Any], *, missing: str) -> Any:
    try:
        return read(path)
    except FileNotFoundError as error:
        raise RunNotFoundError(missing) from error
    except Unreadable as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, why: object) -> RunNotFoundError:
    return RunNotFoundError(f"Expected {path} as rightreasons wrote it, but cannot read it: {why}.")
