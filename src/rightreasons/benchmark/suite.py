"""A table of a paper as data: variants × methods × candidates × seeds × measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rightreasons.benchmark.measure import Figures, Measure
from rightreasons.benchmark.suite_check import MACHINE_FIELDS, refuse_inconsistent
from rightreasons.errors import UnknownNameError

__all__ = [
    "MACHINE_FIELDS",
    "Budget",
    "Grid",
    "Layout",
    "Method",
    "Overrides",
    "Suite",
    "Threshold",
    "Variant",
]

Overrides = Mapping[str, Any]
"""Fields of `Config` and their values; dictionaries among them are merged, not replaced."""

Grid = Sequence[Overrides]
"""Candidates of which one is chosen on validation data."""

Threshold = tuple[str, float]
"""A key on the validation part, and what it must reach: ``("accuracy", 0.93)``."""

Layout = Literal["blocks", "columns"]
"""How the table is laid out."""


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
        methods: The names of those it has; None is all.
        chosen_in: The name of another variant. No candidates run here: each method goes on with
            the one chosen there. With ``grids`` here, it is the one of the same number in them,
            such as a weight scaled to the variant.
        select_if: In place of the suite's, where another data set has another ceiling.
    """

    name: str
    title: str = ""
    overrides: Overrides = field(default_factory=dict)
    grids: Mapping[str, Grid] = field(default_factory=dict)
    methods: Sequence[str] | None = None
    chosen_in: str | None = None
    select_if: Threshold | None = None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much to spend, the same for every method.

    Args:
        seeds: One run each.
        seeds_of_choice: How many of them, from the first, candidates are compared at; by the mean,
            where there are several.
        overrides: Such as the number of epochs.
        variants: More of them, by the name of a variant.
        protocol: What differs from the paper with this budget, a sentence each.
    """

    seeds: Sequence[int]
    overrides: Overrides = field(default_factory=dict)
    variants: Mapping[str, Overrides] = field(default_factory=dict)
    protocol: Sequence[str] = ()
    seeds_of_choice: int = 1


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
        select_if: Choose among the candidates that reach this only; where less of the metric is
            better, that stay at or below it. If none does, the one that comes nearest is chosen.
        ties_within: How many standard errors of the best a candidate may be off and still count as
            its equal; of equals the first is chosen. With 1 and candidates that begin with the
            strongest penalty it is the rule of one standard error, for measures that have an
            interval.
        budgets: By name; ``"small"`` and ``"paper"``.
        figures: The paper's.
        protocol: What differs from the paper, a sentence each.
        layout: ``"blocks"``, a table for each variant, or ``"columns"``, a table for each measure
            with a column for each variant: the points of an ablation's curves.
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
    select_if: Threshold | None = None
    ties_within: float = 0.0
    layout: Layout = "blocks"

    def __post_init__(self) -> None:
        refuse_inconsistent(self)

    def budget(self, name: str) -> Budget:
        """The budget of this name."""
        try:
            return self.budgets[name]
        except KeyError:
            raise UnknownNameError("budget", name, self.budgets) from None

    def variant(self, name: str) -> Variant:
        """The variant of this name."""
        found = {variant.name: variant for variant in self.variants}
        if name not in found:
            raise UnknownNameError("variant", name, found)
        return found[name]

    def methods_of(self, variant: Variant) -> list[Method]:
        """The methods a variant has, in the order of the suite."""
        names = variant.methods
        return [method for method in self.methods if names is None or method.name in names]

    def grid(self, variant: Variant, method: Method) -> Grid:
        """The candidates of a method in a variant."""
        if variant.chosen_in is None:
            return variant.grids.get(method.name, method.grid)
        return variant.grids.get(method.name, self.grid(self.variant(variant.chosen_in), method))

    def threshold(self, variant: Variant) -> Threshold | None:
        """What candidates must reach in a variant to be chosen among."""
        return self.select_if if variant.select_if is None else variant.select_if
