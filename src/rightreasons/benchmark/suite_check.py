"""Checks of a suite when it is created, so that a mistake does not show after hours of work."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING

from rightreasons.core.checks import check_choice, check_names
from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.metrics import METRICS
from rightreasons.run.config import Config

if TYPE_CHECKING:
    from rightreasons.benchmark.suite import Suite

__all__ = ["MACHINE_FIELDS", "check_suite"]

MACHINE_FIELDS = ("data_dir", "accelerator", "devices")
"""Fields of `Config` that say where a run happens, not what it does."""

LAYOUTS = ("blocks", "columns", "reference")


def check_suite(suite: Suite) -> None:
    """Raise if the parts of a suite do not fit together."""
    check_choice("layout", suite.layout, LAYOUTS)
    _refuse_repeated_names(suite)
    _refuse_unknown_names(suite)
    _refuse_empty_variants(suite)
    _refuse_bad_sources(suite)
    _refuse_unknown_fields(suite)
    _refuse_unequal_grids(suite)
    _refuse_infinite_thresholds(suite)
    if not 0 <= suite.ties_within < math.inf:
        raise InvalidSettingError(
            f"Expected `ties_within` of the suite {suite.name!r} to be a finite number of standard "
            f"errors, 0 or more, but got {suite.ties_within!r}."
        )
    for name, budget in suite.budgets.items():
        if not budget.seeds or len(set(budget.seeds)) < len(budget.seeds):
            raise InvalidSettingError(
                f"Expected the budget {name!r} of the suite {suite.name!r} to have distinct "
                f"seeds, at least one, but got {tuple(budget.seeds)}."
            )
        if not 1 <= budget.seeds_of_choice <= len(budget.seeds):
            raise InvalidSettingError(
                f"Expected the budget {name!r} of the suite {suite.name!r} to choose at 1 to "
                f"{len(budget.seeds)} seeds, as many as it has, but `seeds_of_choice` is "
                f"{budget.seeds_of_choice!r}."
            )


def _refuse_repeated_names(suite: Suite) -> None:
    kinds = {
        "variants": [variant.name for variant in suite.variants],
        "methods": [method.name for method in suite.methods],
        "measures": [measure.name for measure in suite.measures],
    }
    for kind, names in kinds.items():
        if not names or len(set(names)) < len(names):
            raise InvalidSettingError(
                f"Expected the {kind} of the suite {suite.name!r} to have distinct names, at "
                f"least one, but got {names}."
            )


def _refuse_unknown_names(suite: Suite) -> None:
    thresholds = [suite.select_if, *(variant.select_if for variant in suite.variants)]
    keys = [suite.select_by, *(threshold[0] for threshold in thresholds if threshold is not None)]
    keys += [variant.select_by for variant in suite.variants if variant.select_by is not None]
    for metric in (*(key.split("/")[0] for key in keys), *(one.metric for one in suite.measures)):
        METRICS[metric]
    variants = [variant.name for variant in suite.variants]
    methods = [method.name for method in suite.methods]
    measures = [measure.name for measure in suite.measures]
    for variant in suite.variants:
        _refuse_unknown("method", methods, [*variant.grids, *(variant.methods or ())])
        _refuse_unknown("variant", variants, [variant.chosen_in] if variant.chosen_in else [])
    _refuse_unknown(
        "variant", variants, [n for one in suite.budgets.values() for n in one.variants]
    )
    for one in suite.budgets.values():
        _refuse_unknown("variant", variants, one.grids)
        _refuse_unknown("method", methods, [name for grids in one.grids.values() for name in grids])
    figures = suite.figures.values
    rows = [row for block in figures.values() for row in block.items()]
    _refuse_unknown("method", methods, suite.references)
    _refuse_unknown("variant", variants, figures)
    _refuse_unknown("method", methods, [name for name, _ in rows])
    _refuse_unknown("measure", measures, [name for _, row in rows for name in row])


def _refuse_unknown(kind: str, known: list[str], names: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise UnknownNameError(kind, name, known)


def _refuse_unknown_fields(suite: Suite) -> None:
    known = {entry.name for entry in fields(Config)} - {*MACHINE_FIELDS, "seed"}
    grids = [
        suite.grid(variant, method, budget)
        for variant in suite.variants
        for method in suite.methods_of(variant)
        for budget in (None, *suite.budgets.values())
    ]
    budgets = suite.budgets.values()
    layers = [
        suite.base,
        *(variant.overrides for variant in suite.variants),
        *(method.overrides for method in suite.methods),
        *(budget.overrides for budget in budgets),
        *(overrides for budget in budgets for overrides in budget.variants.values()),
        *(candidate for grid in grids for candidate in grid),
    ]
    check_names(
        f"overrides of the suite {suite.name!r}",
        {name for layer in layers for name in layer},
        sorted(known),
        remedy="Seeds belong to the budget, folders and devices to run_suite.",
    )


def _refuse_unequal_grids(suite: Suite) -> None:
    pairs = [(one, b) for one in suite.variants for b in (None, *suite.budgets.values())]
    for variant, budget in pairs:
        methods = suite.methods_of(variant)
        counts = {method.name: len(suite.grid(variant, method, budget)) for method in methods}
        if len(set(counts.values())) > 1 or not min(counts.values()):
            listed = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise InvalidSettingError(
                f"Expected every method of the suite {suite.name!r} to have the same number of "
                f"candidates in {variant.name!r}, at least one, but got {listed}. A method without "
                "a setting of its own can be given learning rates."
            )


def _refuse_empty_variants(suite: Suite) -> None:
    for variant in suite.variants:
        names = variant.methods
        if names is not None and (not names or len(set(names)) < len(names)):
            raise InvalidSettingError(
                f"Expected the methods of the variant {variant.name!r} of the suite "
                f"{suite.name!r} to be distinct, at least one, but got {list(names)}. Leave "
                "`methods` out to have all."
            )


def _refuse_bad_sources(suite: Suite) -> None:
    for variant in suite.variants:
        if variant.chosen_in is None:
            continue
        source = suite.variant(variant.chosen_in)
        if source.chosen_in is not None:
            raise InvalidSettingError(
                f"Expected the variant {variant.name!r} of the suite {suite.name!r} to take its "
                f"settings from one that chooses its own, but {source.name!r} takes them from "
                f"{source.chosen_in!r}. Name a variant without `chosen_in`."
            )
        for name in ("select_if", "select_by", "seeds_of_choice"):
            if getattr(variant, name) is not None:
                raise InvalidSettingError(
                    f"Expected `{name}` where settings are chosen, but the variant "
                    f"{variant.name!r} of the suite {suite.name!r} takes them from "
                    f"{source.name!r}. Say it there."
                )
        there = [method.name for method in suite.methods_of(source)]
        for method in suite.methods_of(variant):
            if method.name not in there:
                raise InvalidSettingError(
                    f"Expected the methods of the variant {variant.name!r} of the suite "
                    f"{suite.name!r} among those of {source.name!r}, where their settings are "
                    f"chosen: {', '.join(there)}; but got {method.name}."
                )
            here = len(suite.grid(variant, method))
            expected = len(suite.grid(source, method))
            if here != expected:
                raise InvalidSettingError(
                    f"Expected as many candidates of {method.name} in the variant "
                    f"{variant.name!r} of the suite {suite.name!r} as in {source.name!r}, where "
                    f"one of them is chosen: {expected}; but got {here}."
                )


def _refuse_infinite_thresholds(suite: Suite) -> None:
    for threshold in (suite.select_if, *(variant.select_if for variant in suite.variants)):
        if threshold is not None and not math.isfinite(threshold[1]):
            raise InvalidSettingError(
                f"Expected `select_if` of the suite {suite.name!r} to be a key and a finite "
                f"number, but got {threshold!r}."
            )
