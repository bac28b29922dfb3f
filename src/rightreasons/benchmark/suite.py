"""A table of a paper as data: variants × methods × candidates × seeds × measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rightreasons.benchmark.measure import Figures, Measure, read_figures
from rightreasons.benchmark.suite_check import MACHINE_FIELDS, check_suite
from rightreasons.errors import UnknownNameError

__all__ = [
    "Budget",
    "Grid",
    "Layout",
    "MACHINE_FIELDS",
    "Method",
    "Overrides",
    "Suite",
    "Threshold",
    "Variant",
    "make_grid",
    "make_suite",
]

Overrides = Mapping[str, Any]
"""Fields of `Config` and their values; dictionaries among them are merged, not replaced."""

Grid = Sequence[Overrides]
"""Candidates; the best on validation data is chosen."""

Threshold = tuple[str, float]
"""A key on the validation part, and what it must reach: ``("accuracy", 0.93)``."""

Layout = Literal["blocks", "columns", "reference"]
"""How the table is laid out."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A line of the table.

    Args:
        name: Name in the table.
        overrides: Settings of the method: ``{"recipe": "r3"}``; an oracle changes
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
        name: Name in the table.
        title: A longer name for headings.
        overrides: Settings of the variant.
        grids: Grids by the name of a method, in place of the method's own, where another data set
            needs other candidates.
        methods: Names of its methods; None is all.
        chosen_in: The name of another variant. No candidates run here: each method uses the one
            chosen there. With ``grids`` here, it is the candidate of the same number in them,
            such as a weight scaled to the variant.
        select_if: Threshold in place of the suite's, for a data set of another difficulty.
        select_by: Key in place of the suite's. Candidates count as equal only if their values are.
        seeds_of_choice: Number in place of the budget's; all seeds if the budget has fewer.
    """

    name: str
    title: str = ""
    overrides: Overrides = field(default_factory=dict)
    grids: Mapping[str, Grid] = field(default_factory=dict)
    methods: Sequence[str] | None = None
    chosen_in: str | None = None
    select_if: Threshold | None = None
    select_by: str | None = None
    seeds_of_choice: int | None = None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much to spend, the same for every method.

    Args:
        seeds: Random seeds, one run for each.
        seeds_of_choice: At how many of the seeds, from the first, candidates are compared; by
            their mean, if there are several.
        overrides: Settings such as the number of epochs.
        variants: Further overrides by the name of a variant.
        protocol: Sentences on what differs from the paper with this budget.
        grids: Grids by the name of a variant and of a method, in place of all others: what a
            paper did is one candidate for each method. A variant that takes its settings from
            another has that one's grids, unless it has its own.
    """

    seeds: Sequence[int]
    overrides: Overrides = field(default_factory=dict)
    variants: Mapping[str, Overrides] = field(default_factory=dict)
    protocol: Sequence[str] = ()
    seeds_of_choice: int = 1
    grids: Mapping[str, Mapping[str, Grid]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A table: every variant × every method, settings chosen on validation data, all seeds.

    A run's configuration merges ``base``, the variant, the budget, the method and the candidate;
    the later wins. In a variant every method has the same number of candidates.

    Args:
        name: Name on the command line.
        title: Title of the table.
        paper: Key in the bibliography; empty for a table of our own.
        table: Which table or figure of the paper.
        base: Settings of all runs.
        variants: Blocks of the table.
        methods: Lines of the table.
        measures: Columns of the table.
        select_by: A key on the *validation* part: ``"swap_accuracy"`` where there are masks,
            ``"group_accuracy/worst"`` where there are groups.
        select_if: Only candidates that reach this threshold are chosen; if less of the metric is
            better, those at or below it. If none does, the nearest one is chosen.
        ties_within: Candidates within so many standard errors of the best count as equal to it;
            the first of equals is chosen. With 1, and candidates listed from the strongest
            penalty on, this is the rule of one standard error. It needs a measure with an
            interval.
        budgets: Budgets by name; ``"small"`` and ``"paper"``.
        figures: The paper's figures.
        protocol: Sentences on what differs from the paper.
        layout: ``"blocks"``, a table for each variant, or ``"columns"``, a table for each measure
            with a column for each variant: the points of an ablation's curves. ``"reference"`` is
            a table for each variant with a column for each measure, and the first measure less
            that of a reference.
        references: For the layout ``"reference"``, methods to compare with; the first that a
            variant has counts.
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
    references: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_suite(self)

    def budget(self, name: str) -> Budget:
        """The budget of this name."""
        try:
            return self.budgets[name]
        except KeyError:
            raise UnknownNameError("budget", name, self.budgets) from None

    def variant(self, name: str) -> Variant:
        """The variant of this name."""
        variants = {variant.name: variant for variant in self.variants}
        if name not in variants:
            raise UnknownNameError("variant", name, variants)
        return variants[name]

    def methods_of(self, variant: Variant) -> list[Method]:
        """The methods a variant has, in the order of the suite."""
        names = variant.methods
        return [method for method in self.methods if names is None or method.name in names]

    def grid(self, variant: Variant, method: Method, budget: Budget | None = None) -> Grid:
        """The candidates of a method in a variant, with the budget's own if it has any."""
        grids = {} if budget is None else budget.grids
        for name in (variant.name, variant.chosen_in):
            if name is not None and method.name in grids.get(name, {}):
                return grids[name][method.name]
        if variant.chosen_in is None:
            return variant.grids.get(method.name, method.grid)
        return variant.grids.get(method.name, self.grid(self.variant(variant.chosen_in), method))

    def key_of(self, variant: Variant) -> str:
        """The key on validation data that chooses in a variant."""
        return self.select_by if variant.select_by is None else variant.select_by

    def slack(self, variant: Variant) -> float:
        """Within how many standard errors candidates count as equal in a variant."""
        return self.ties_within if variant.select_by is None else 0.0

    def threshold(self, variant: Variant) -> Threshold | None:
        """The threshold that candidates must reach in a variant."""
        return self.select_if if variant.select_if is None else variant.select_if


def make_grid(**settings: Sequence[Any]) -> Grid:
    """Make candidates of a recipe: the first value of each setting, the second of each, and so on.

    Example:
        >>> make_grid(weight=(0.3, 0.1), epsilon=(1.0, 0.5))[1]
        {'settings': {'weight': 0.1, 'epsilon': 0.5}}
    """
    columns = zip(*settings.values(), strict=True)
    return [{"settings": dict(zip(settings, column, strict=True))} for column in columns]


def make_suite(paper: str, name: str, title: str, table: str, **parts: Any) -> Suite:
    """Make a suite of this package, with the paper's figures from ``suites/NAME.yaml``.

    Args:
        paper: Key in the bibliography.
        name: Name on the command line.
        title: Title of the table.
        table: Which table or figure of the paper.
        parts: The other settings of `Suite`.
    """
    path = Path(__file__).parent / "suites" / f"{name.replace('-', '_')}.yaml"
    figures = read_figures(path) if path.exists() else Figures()
    return Suite(name=name, title=title, paper=paper, table=table, figures=figures, **parts)
