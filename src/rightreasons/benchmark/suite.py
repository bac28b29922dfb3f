"""A table of a paper as data: variants × methods × candidates × seeds × measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from rightreasons.benchmark.figures import Figures
from rightreasons.benchmark.measure import Measure
from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.metrics import METRICS
from rightreasons.run import Config

__all__ = ["MACHINE_FIELDS", "Budget", "Grid", "Method", "Overrides", "Suite", "Variant"]

Overrides = Mapping[str, Any]
"""Fields of `Config` and their values; dictionaries among them are merged, not replaced."""

Grid = Sequence[Overrides]
"""Candidates of which one is chosen on validation data."""

MACHINE_FIELDS = ("data_dir", "accelerator", "devices")
"""Fields of `Config` that say where a run happens, not what it is."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A line of the table.

    Args:
        name: As the table names it.
        overrides: What makes it this method: ``{"recipe": "r3"}``; an oracle changes
            ``data_settings``.
        grid: The candidates to choose among: ``({"settings": {"weight": 3}}, {"lr": 1e-3})``.
    """

    name: str
    overrides: Overrides = field(default_factory=dict)
    grid: Grid = ({},)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A block of the table: a data set, or one step along the axis of an ablation.

    Args:
        name: As the table names it.
        title: What it is, for a heading.
        overrides: What makes it this variant.
        grids: Grids by the name of a method, in place of the method's own, where another data set
            needs other candidates.
    """

    name: str
    title: str = ""
    overrides: Overrides = field(default_factory=dict)
    grids: Mapping[str, Grid] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much to spend, the same for every method.

    Args:
        seeds: One run each; candidates are compared at the first.
        overrides: Such as the number of epochs.
        variants: More of them, by the name of a variant.
        protocol: What differs from the paper with this budget, a sentence each.
    """

    seeds: Sequence[int]
    overrides: Overrides = field(default_factory=dict)
    variants: Mapping[str, Overrides] = field(default_factory=dict)
    protocol: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A table: every variant × every method, settings chosen on validation data, all seeds.

    What a run does is put together from ``base``, the variant, the budget, the method and the
    candidate; the later wins. In a variant every method has the same number of candidates.

    Args:
        name: Its name on the command line.
        title: What the table shows.
        paper: Key in the bibliography.
        table: Where it stands in the paper.
        base: What all runs have in common.
        variants: The blocks.
        methods: The lines.
        measures: The columns.
        select_by: A key on the *validation* part: ``"swap_accuracy"`` where there are masks,
            ``"group_accuracy/worst"`` where there are groups.
        budgets: By name; ``"small"`` and ``"paper"``.
        figures: The paper's.
        protocol: What differs from the paper, a sentence each.
    """

    name: str
    title: str
    paper: str
    table: str
    base: Overrides
    variants: Sequence[Variant]
    methods: Sequence[Method]
    measures: Sequence[Measure]
    select_by: str
    budgets: Mapping[str, Budget]
    figures: Figures = Figures()
    protocol: Sequence[str] = ()

    def __post_init__(self) -> None:
        _refuse_repeated_names(self)
        _refuse_unknown_names(self)
        _refuse_unknown_fields(self)
        _refuse_unequal_grids(self)
        for name, budget in self.budgets.items():
            if not budget.seeds or len(set(budget.seeds)) < len(budget.seeds):
                raise InvalidSettingError(
                    f"Expected the budget {name!r} of the suite {self.name!r} to have distinct "
                    f"seeds, at least one, but got {tuple(budget.seeds)}."
                )

    def budget(self, name: str) -> Budget:
        """The budget of this name."""
        try:
            return self.budgets[name]
        except KeyError:
            raise UnknownNameError("budget", name, self.budgets) from None

    def grid(self, variant: Variant, method: Method) -> Grid:
        """The candidates of a method in a variant."""
        return variant.grids.get(method.name, method.grid)


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
    for metric in (suite.select_by.split("/")[0], *(one.metric for one in suite.measures)):
        METRICS[metric]
    variants = [variant.name for variant in suite.variants]
    methods = [method.name for method in suite.methods]
    measures = [measure.name for measure in suite.measures]
    _refuse_unknown("method", methods, [name for one in suite.variants for name in one.grids])
    _refuse_unknown(
        "variant", variants, [n for one in suite.budgets.values() for n in one.variants]
    )
    figures = suite.figures.values
    rows = [row for block in figures.values() for row in block.items()]
    _refuse_unknown("variant", variants, figures)
    _refuse_unknown("method", methods, [name for name, _ in rows])
    _refuse_unknown("measure", measures, [name for _, row in rows for name in row])


def _refuse_unknown(kind: str, known: list[str], names: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise UnknownNameError(kind, name, known)


def _refuse_unknown_fields(suite: Suite) -> None:
    known = {entry.name for entry in fields(Config)} - {*MACHINE_FIELDS, "seed"}
    grids = [suite.grid(variant, method) for variant in suite.variants for method in suite.methods]
    budgets = suite.budgets.values()
    layers = [
        suite.base,
        *(variant.overrides for variant in suite.variants),
        *(method.overrides for method in suite.methods),
        *(budget.overrides for budget in budgets),
        *(overrides for budget in budgets for overrides in budget.variants.values()),
        *(candidate for grid in grids for candidate in grid),
    ]
    unknown = sorted({name for layer in layers for name in layer} - known)
    if unknown:
        raise InvalidSettingError(
            f"Expected overrides of the suite {suite.name!r} among {', '.join(sorted(known))}; "
            f"but got {', '.join(unknown)}. Seeds belong to the budget, folders and devices to "
            "run_suite."
        )


def _refuse_unequal_grids(suite: Suite) -> None:
    for variant in suite.variants:
        counts = {method.name: len(suite.grid(variant, method)) for method in suite.methods}
        if len(set(counts.values())) > 1 or not min(counts.values()):
            told = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise InvalidSettingError(
                f"Expected every method of the suite {suite.name!r} to have the same number of "
                f"candidates in {variant.name!r}, at least one, but got {told}. A method without "
                "a setting of its own can be given learning rates."
            )
