"""A cell: one run of a suite, and the address of its row and folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from rightreasons.benchmark.suite import MACHINE_FIELDS, Budget, Method, Overrides, Suite, Variant
from rightreasons.run.config import Config

__all__ = [
    "Cell",
    "config_key",
    "data_key",
    "describe_overrides",
    "make_cell",
    "merge_overrides",
    "row_address",
]

KEY_LENGTH = 16
NAME_FIELDS = ("data", "recipe", "model", "strategy")
FORMER_DEFAULTS = {"batch_size": 250, "lr": 2e-3, "epochs": 10, "model": "mlp"}
"""Former defaults of `Config`: hashes still use them, so that rows kept before stay valid."""

UNSTATED: Overrides = {"model": "mlp", "epochs": 10, "batch_size": 128}
"""What a run has where its suite does not say it. In a run of its own the data decide."""


@dataclass(frozen=True)
class Cell:
    """One run of a suite, with a name for progress messages."""

    name: str
    config: Config


def make_cell(
    suite: Suite, budget: Budget, variant: Variant, method: Method, candidate: Overrides, seed: int
) -> Cell:
    """Merge all overrides into the configuration of one run; the last layer wins.

    A layer that names another model drops the settings of the model before.
    """
    layers = (
        UNSTATED,
        suite.base,
        variant.overrides,
        budget.overrides,
        budget.variants.get(variant.name, {}),
        method.overrides,
        candidate,
    )
    merged = merge_overrides(*layers[:1])
    for layer in layers[1:]:
        if layer.get("model", merged["model"]) != merged["model"]:
            merged.pop("model_settings", None)  # they belong to the model that is replaced
        merged = merge_overrides(merged, layer)
    plain = json.loads(json.dumps(merged))  # tuples become lists, as in config.yaml
    words = [variant.name, method.name, describe_overrides(candidate), f"seed {seed}"]
    return Cell(
        name=" · ".join(word for word in words if word),
        config=Config(**plain, seed=seed),
    )


def merge_overrides(*layers: Overrides) -> dict[str, Any]:
    """Merge dictionaries into one; dictionaries inside are merged as well.

    Example:
        >>> merge_overrides({"lr": 0.1, "settings": {"weight": 1}}, {"settings": {"norm": "l2"}})
        {'lr': 0.1, 'settings': {'weight': 1, 'norm': 'l2'}}
    """
    result: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            inner = [one for one in (result.get(name), value) if isinstance(one, Mapping)]
            result[name] = merge_overrides(*inner) if len(inner) == 2 else value
    return result


def describe_overrides(overrides: Overrides) -> str:
    """Describe overrides for readers.

    Example:
        >>> describe_overrides({"settings": {"weight": 30.0}, "lr": 0.002})
        'weight 30, lr 0.002'
    """
    words = []
    for name, value in overrides.items():
        if isinstance(value, Mapping):
            words.append(describe_overrides(value))
        else:
            words.append(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(word for word in words if word)


def config_key(config: Config) -> str:
    """Hash what a run does.

    Fields that say where it runs do not count, nor do fields with their default value. So old
    rows keep their hash when `Config` gets a new field.
    """
    kept = {}
    for entry in fields(Config):
        value = getattr(config, entry.name)
        default = entry.default if entry.default_factory is MISSING else entry.default_factory()
        default = FORMER_DEFAULTS.get(entry.name, default)
        if entry.name not in MACHINE_FIELDS and value != default:
            kept[entry.name] = value.replace("-", "_") if entry.name in NAME_FIELDS else value
    return _hash(kept)


def data_key(config: Config | Mapping[str, Any]) -> str:
    """Hash the data settings of a run; runs with the same key can share their data."""
    values = asdict(config) if isinstance(config, Config) else config
    settings = {"seed": values["seed"], **values["data_settings"]}
    masks = {"masks": values["masks"]} if values.get("masks") else {}  # older rows have none
    return _hash({"data": values["data"].replace("-", "_"), "settings": settings, **masks})


def row_address(config: Config, data_sha256: str) -> str:
    """Address of a run's row and folder: the hashes of its configuration and its data."""
    return f"{config_key(config)}-{data_sha256[:KEY_LENGTH]}"


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]
