"""Suites by name."""

from __future__ import annotations

from rightreasons.benchmark.suite import Suite
from rightreasons.benchmark.suites import (
    alignment_table1,
    decoy_mnist,
    density_figure4,
    density_groups,
    density_table1,
    density_unseen,
    masktune_figure2,
    masktune_table1,
    masktune_table4,
    masktune_table5,
    masktune_table6,
    r4_corruption,
    r4_mask_fraction,
    r4_model_size,
    r4_table1,
    r4_table2,
    r4_weight_decay,
    reff_decoy_ham,
    reff_regimes,
    reff_table2,
    reff_table3,
)
from rightreasons.core.registry import Registry

__all__ = ["SUITES", "describe", "find_suite"]

SUITES: Registry[Suite] = Registry(
    "suite",
    {
        "alignment_table1": alignment_table1,
        "decoy_mnist": decoy_mnist,
        "density_figure4": density_figure4,
        "density_groups": density_groups,
        "density_table1": density_table1,
        "density_unseen": density_unseen,
        "masktune_figure2": masktune_figure2,
        "masktune_table1": masktune_table1,
        "masktune_table4": masktune_table4,
        "masktune_table5": masktune_table5,
        "masktune_table6": masktune_table6,
        "r4_corruption": r4_corruption,
        "r4_mask_fraction": r4_mask_fraction,
        "r4_model_size": r4_model_size,
        "r4_table1": r4_table1,
        "r4_table2": r4_table2,
        "r4_weight_decay": r4_weight_decay,
        "reff_decoy_ham": reff_decoy_ham,
        "reff_regimes": reff_regimes,
        "reff_table2": reff_table2,
        "reff_table3": reff_table3,
    },
)


def describe() -> dict[str, str]:
    """One line for each suite."""
    return SUITES.describe()


def find_suite(suite: Suite | str) -> Suite:
    """The suite of this name; a suite is itself."""
    return SUITES.create(suite) if isinstance(suite, str) else suite
