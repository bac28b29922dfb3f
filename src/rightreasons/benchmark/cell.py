"""A cell: one run of a suite, and the address its row goes by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from rightreasons.benchmark.suite import MACHINE_FIELDS, Budget, Method, Overrides, Suite, Variant
from rightreasons.run.run import Config

__all__ = ["Cell", "address", "config_key", "data_key", "in_words", "make_cell", "merged"]

KEY_LENGTH = 16
NAME_FIELDS = ("data", "recipe", "model", "strategy")
FORMER_DEFAULTS = {"batch_size": 250, "lr": 2e-3}
"""Defaults of `Config` that changed after rows were kept: their hashes go by the former ones."""


@dataclass(frozen=True)
class Cell:
    """One run of a suite, and what to call it."""

    name: str
    config: Config


def make_cell(
    suite: Suite, budget: Budget, variant: Variant, method: Method, candidate: Overrides, seed: int
) -> Cell:
    """Put a run together; what comes later in the list of layers wins."""
    layers = (
        suite.base,
        variant.overrides,
        budget.overrides,
        budget.variants.get(variant.name, {}),
        method.overrides,
        candidate,
    )
    plain = json.loads(json.dumps(merged(*layers)))  # tuples become lists, as in config.yaml
    words = [variant.name, method.name, in_words(candidate), f"seed {seed}"]
    return Cell(
        name=" · ".join(word for word in words if word),
        config=Config(**plain, seed=seed),
    )


def merged(*layers: Overrides) -> dict[str, Any]:
    """One dictionary of many; dictionaries inside are merged as well.

    Example:
        >>> merged({"lr": 0.1, "settings": {"weight": 1}}, {"settings": {"norm": "l2"}})
        {'lr': 0.1, 'settings': {'weight': 1, 'norm': 'l2'}}
    """
    result: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            inner = [one for one in (result.get(name), value) if isinstance(one, Mapping)]
            result[name] = merged(*inner) if len(inner) == 2 else value
    return result


def in_words(overrides: Overrides) -> str:
    """Overrides as a reader wants them.

    Example:
        >>> in_words({"settings": {"weight": 30.0}, "lr": 0.002})
        'weight 30, lr 0.002'
    """
    words = []
    for name, value in overrides.items():
        if isinstance(value, Mapping):
            words.append(in_words(value))
        else:
            words.append(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(word for word in words if word)


def config_key(config: Config) -> str:
    """What a run does, as a hash.

    Where it runs does not count, nor does a field that has its default: so a field that `Config`
    gets later leaves old rows theirs.
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
    """What data a run asks for, as a hash; runs with the same key can share them."""
    known = asdict(config) if isinstance(config, Config) else config
    settings = {"seed": known["seed"], **known["data_settings"]}
    return _hash({"data": known["data"].replace("-", "_"), "settings": settings})


def address(config: Config, data_sha256: str) -> str:
    """What a run's row and folder go by: the hash of the configuration, and that of the data."""
    return f"{config_key(config)}-{data_sha256[:KEY_LENGTH]}"


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]
