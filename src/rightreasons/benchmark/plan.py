"""The plan of a sweep: which cells to run; candidates first, then the chosen one at every seed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rightreasons.benchmark.cell import Cell, make_cell
from rightreasons.benchmark.measure import higher_is_better
from rightreasons.benchmark.store import Row
from rightreasons.benchmark.suite import Budget, Grid, Method, Suite, Threshold, Variant
from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.run.config import Config

__all__ = ["Choice", "Find", "Line", "Plan", "choose", "list_lines", "plan"]

ENDS = ("low", "high")


@dataclass(frozen=True)
class Choice:
    """The candidate that is chosen for a method.

    Args:
        decided: Whether all candidates are finished.
        candidate: Number of the chosen candidate; None if undecided, or if all failed.
        value: Its value on validation data; None if there was only one candidate.
        fell_short: Whether no candidate reached the suite's threshold, so that the nearest one
            was chosen.
    """

    decided: bool
    candidate: int | None = None
    value: float | None = None
    fell_short: bool = False


def choose(
    suite: Suite,
    rows: Sequence[Sequence[Row | None]],
    threshold: Threshold | None = None,
    variant: Variant | None = None,
) -> Choice:
    """Choose the best candidate by its rows, the first of equals (see `Suite.ties_within`).

    A candidate's value is the mean over its rows. A candidate with a failed row, or with a value
    that is not a finite number, is never chosen.

    Args:
        suite: The suite, with the key to choose by.
        rows: The rows of each candidate, one for each seed; None is a run not finished yet.
        threshold: A key and the value that a candidate must reach.
        variant: Where the choice is made, which may choose by a key of its own.
    """
    key = suite.select_by if variant is None else suite.key_of(variant)
    ties_within = suite.ties_within if variant is None else suite.slack(variant)
    finished = [[row for row in each if row is not None] for each in rows]
    if any(row is None for each in rows for row in each):
        return Choice(decided=False)
    keys = [key, *([threshold[0]] if threshold is not None else [])]
    measured = {
        number: [_mean(_validation_value(suite, row, key) for row in each) for key in keys]
        for number, each in enumerate(finished)
        if not any(row.failure for row in each)
    }
    finite = {
        number: [value for value in values if value is not None]
        for number, values in measured.items()
        if None not in values
    }
    if not finite:
        return Choice(decided=True)
    by, fell_short, allowed = 0, False, finite
    if threshold is not None:
        bound = _signed(*threshold)
        allowed = {n: v for n, v in finite.items() if _signed(threshold[0], v[1]) >= bound}
        fell_short = not allowed
        by, allowed = (1, finite) if fell_short else (0, allowed)
    best = max(allowed, key=lambda number: _signed(keys[by], allowed[number][by]))
    if ties_within and not fell_short:
        slack = ties_within * _standard_error(suite, finished[best])
        lowest = _signed(keys[0], allowed[best][0]) - slack
        best = next(n for n, v in allowed.items() if _signed(keys[0], v[0]) >= lowest)
    return Choice(decided=True, candidate=best, value=finite[best][0], fell_short=fell_short)


def _signed(key: str, value: float) -> float:
    """The value with a sign by which more is better."""
    return value if higher_is_better(key.split("/")[0]) else -value


def _standard_error(suite: Suite, rows: Sequence[Row]) -> float:
    """The standard error of a candidate's value, from the 95 % intervals of its rows."""
    errors = []
    for row in rows:
        low, high = (_validation_value(suite, row, f"{suite.select_by}/{end}") for end in ENDS)
        errors.append(0.0 if low is None or high is None else (high - low) / (2 * 1.959964))
    return math.hypot(*errors) / len(errors)


def _mean(values: Iterable[float | None]) -> float | None:
    given = list(values)
    known = [value for value in given if value is not None]
    return math.fsum(known) / len(known) if len(known) == len(given) else None


def _validation_value(suite: Suite, row: Row, key: str) -> float | None:
    measured: dict[str, float | None] = row.results["metrics"].get("validation", {})
    if key not in measured:
        raise InvalidSettingError(
            f"Expected the suite {suite.name!r} to choose by a measure of the validation data, "
            f"but {key!r} is not among them: "
            f"{', '.join(measured) or 'there are no validation data'}. Add it to `metrics`, or "
            "choose by another."
        )
    return measured[key]


Find = Callable[[Config], Row | None]
"""Finds the row of a run; None if the run is not finished."""


@dataclass(frozen=True)
class Line:
    """A method in a variant: one line of the table."""

    suite: Suite
    budget: Budget
    variant: Variant
    method: Method

    @property
    def grid(self) -> Grid:
        """The candidates."""
        return self.suite.grid(self.variant, self.method, self.budget)

    @property
    def num_candidates(self) -> int:
        """How many candidates the method has, here or in the variant where one is chosen."""
        return len(self.grid)

    @property
    def source(self) -> Line:
        """The line whose candidates are compared: this one, or that of ``variant.chosen_in``."""
        if self.variant.chosen_in is None:
            return self
        return replace(self, variant=self.suite.variant(self.variant.chosen_in))

    def cell(self, candidate: int, seed: int) -> Cell:
        """The run with this candidate at this seed."""
        chosen = self.grid[candidate]
        return make_cell(self.suite, self.budget, self.variant, self.method, chosen, seed)

    def possible_cells(self) -> list[Cell]:
        """Every candidate at the first seed, whether it will run or not."""
        first = self.budget.seeds[0]
        return [self.cell(number, first) for number in range(self.num_candidates)]

    def candidates(self) -> list[Cell]:
        """All candidates, at each seed of the choice; none if the choice is made elsewhere."""
        return [
            self.cell(number, seed)
            for seed in self.budget.seeds[: self._num_seeds_of_choice()]
            for number in range(self.num_candidates)
        ]

    def seeds_after_choice(self) -> Sequence[int]:
        """Seeds at which the chosen candidate still has to run."""
        return self.budget.seeds[self._num_seeds_of_choice() :]

    def _num_seeds_of_choice(self) -> int:
        if self.source is not self:
            return 0
        if self.num_candidates == 1:
            return 1
        return self.variant.seeds_of_choice or self.budget.seeds_of_choice

    def choice(self, find: Find) -> Choice:
        """The candidate that is best on validation data, the first of equals."""
        if self.num_candidates == 1:
            return Choice(decided=True, candidate=0)
        rows = [find(cell.config) for cell in self.source.candidates()]
        by_candidate = [
            rows[number :: self.num_candidates] for number in range(self.num_candidates)
        ]
        variant = self.source.variant
        return choose(self.suite, by_candidate, self.suite.threshold(variant), variant)


@dataclass(frozen=True)
class Plan:
    """The cells of a sweep that are known so far.

    Args:
        cells: Cells in the order to run them, each once.
        num_unknown: How many more cells follow once candidates are chosen.
    """

    cells: list[Cell]
    num_unknown: int


def list_lines(
    suite: Suite,
    budget: str,
    *,
    variants: Collection[str] | None = None,
    methods: Collection[str] | None = None,
    seeds: Collection[int] | None = None,
) -> list[Line]:
    """The lines of the table, block by block.

    Args:
        suite: The suite.
        budget: Name of its budget.
        variants: Names of the variants to list, in which ``*`` stands for anything; None lists
            all.
        methods: Names of the methods to list, in which ``*`` stands for anything; None lists all.
        seeds: Some of the budget's seeds; None is all. Only where no settings are chosen.
    """
    chosen_budget = suite.budget(budget)
    if seeds is not None:
        chosen_budget = replace(chosen_budget, seeds=_some_seeds(suite, chosen_budget, seeds))
    chosen_variants = _match(variants, "variant", [variant.name for variant in suite.variants])
    chosen_methods = _match(methods, "method", [method.name for method in suite.methods])
    lines = [
        Line(suite, chosen_budget, variant, method)
        for variant in suite.variants
        for method in suite.methods_of(variant)
        if variant.name in chosen_variants and method.name in chosen_methods
    ]
    if not lines:
        raise InvalidSettingError(
            f"Expected a part of the suite {suite.name!r} with at least one method in one variant, "
            f"but got variants {_format_names(variants)} and methods {_format_names(methods)}."
        )
    return lines


def _match(wanted: Collection[str] | None, kind: str, known: Sequence[str]) -> list[str]:
    """The known names that are wanted; an unknown one raises."""
    if wanted is None:
        return list(known)
    # brackets, which names may have, are no pattern here
    patterns = {name: re.compile(".*".join(map(re.escape, name.split("*")))) for name in wanted}
    for name, pattern in patterns.items():
        if not any(pattern.fullmatch(one) for one in known):
            raise UnknownNameError(kind, name, known)
    return [one for one in known if any(pattern.fullmatch(one) for pattern in patterns.values())]


def _some_seeds(suite: Suite, budget: Budget, seeds: Collection[int]) -> list[int]:
    unknown = [seed for seed in seeds if seed not in budget.seeds]
    if unknown or not seeds:
        raise InvalidSettingError(
            f"Expected some of the seeds {', '.join(map(str, budget.seeds))} of the suite "
            f"{suite.name!r}, but got {', '.join(map(str, unknown)) or 'none'}."
        )
    if any(
        len(suite.grid(one, method, budget)) > 1
        for one in suite.variants
        for method in suite.methods
    ):
        raise InvalidSettingError(
            f"Expected a suite without a choice of settings to run some of its seeds, but "
            f"{suite.name!r} chooses among candidates. Run all seeds."
        )
    return [seed for seed in budget.seeds if seed in seeds]


def plan(
    suite: Suite,
    budget: str,
    find: Find,
    *,
    variants: Collection[str] | None = None,
    methods: Collection[str] | None = None,
    seeds: Collection[int] | None = None,
) -> Plan:
    """Plan the cells to run, given those that are finished; plan again after each run.

    Within a variant, runs with the same data follow each other: all candidates, then seed by
    seed. A part of a suite also needs the candidates of other variants where its settings are
    chosen.
    """
    cells, num_unknown = [], 0
    lines = list_lines(suite, budget, variants=variants, methods=methods, seeds=seeds)
    for block in _group_by_variant(lines):
        choices = [line.choice(find) for line in block]
        cells += [cell for line in block for cell in _cells_of_choice(line)]
        cells += _cells_after_choice(block, choices)
        num_unknown += sum(
            len(line.seeds_after_choice())
            for line, choice in zip(block, choices, strict=True)
            if not choice.decided
        )
    return Plan(list(_drop_repeated(cells)), num_unknown)


def _group_by_variant(lines: Sequence[Line]) -> list[list[Line]]:
    blocks: dict[str, list[Line]] = {}
    for line in lines:
        blocks.setdefault(line.variant.name, []).append(line)
    return list(blocks.values())


def _cells_of_choice(line: Line) -> list[Cell]:
    """Candidates that run before the choice; elsewhere only where there is a choice to make."""
    chosen_here = line.source is line
    return line.source.candidates() if chosen_here or line.num_candidates > 1 else []


def _cells_after_choice(block: list[Line], choices: list[Choice]) -> list[Cell]:
    return [
        line.cell(choice.candidate, seed)
        for seed in block[0].budget.seeds
        for line, choice in zip(block, choices, strict=True)
        if choice.candidate is not None and seed in line.seeds_after_choice()
    ]


def _format_names(names: Collection[str] | None) -> str:
    return "of any name" if names is None else str(list(names))


def _drop_repeated(cells: list[Cell]) -> Iterator[Cell]:
    seen: list[Config] = []
    for cell in cells:
        if cell.config not in seen:
            seen.append(cell.config)
            yield cell
