"""Suites by name."""

from __future__ import annotations

from rightreasons.benchmark.suite import Suite
from rightreasons.benchmark.suites import (
    decoy_mnist,
    r4_corruption,
    r4_mask_fraction,
    r4_model_size,
    r4_table1,
    r4_table2,
    r4_weight_decay,
)
from rightreasons.registry import Registry

__all__ = ["SUITES", "describe", "find_suite"]

SUITES: Registry[Suite] = Registry(
    "suite",
    {
        "decoy_mnist": decoy_mnist,
        "r4_corruption": r4_corruption,
        "r4_mask_fraction": r4_mask_fraction,
        "r4_model_size": r4_model_size,
        "r4_table1": r4_table1,
        "r4_table2": r4_table2,
        "r4_weight_decay": r4_weight_decay,
    },
)


def describe() -> dict[str, str]:
    """One line for each suite."""
    return SUITES.describe()


def find_suite(suite: Suite | str) -> Suite:
    """The suite of this name; a suite is itself."""
    return SUITES.create(suite) if isinstance(suite, str) else suite
