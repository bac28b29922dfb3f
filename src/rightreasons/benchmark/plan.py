"""What is left to do: candidates first, then the chosen one at every seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rightreasons.benchmark.cell import Cell, make_cell
from rightreasons.benchmark.measure import higher_is_better
from rightreasons.benchmark.store import Row
from rightreasons.benchmark.suite import Budget, Method, Suite, Variant
from rightreasons.errors import InvalidSettingError
from rightreasons.run import Config

__all__ = ["Choice", "Find", "Line", "Plan", "lines", "plan"]

Find = Callable[[Config], Row | None]
"""Looks a run up; None if it is not finished."""


@dataclass(frozen=True)
class Choice:
    """Which candidate a method goes on with.

    Args:
        decided: Whether all candidates are finished.
        candidate: The number of the chosen one; None if undecided, or if all failed.
        value: What it reached on validation data; None if there was nothing to choose.
    """

    decided: bool
    candidate: int | None = None
    value: float | None = None


@dataclass(frozen=True)
class Line:
    """A method in a variant: a line of a block of the table."""

    suite: Suite
    budget: Budget
    variant: Variant
    method: Method

    def cell(self, candidate: int, seed: int) -> Cell:
        """The run with this candidate at this seed."""
        chosen = self.suite.grid(self.variant, self.method)[candidate]
        return make_cell(self.suite, self.budget, self.variant, self.method, chosen, seed)

    @property
    def num_candidates(self) -> int:
        """How many there are to choose among."""
        return len(self.suite.grid(self.variant, self.method))

    def candidates(self) -> list[Cell]:
        """Every candidate at the first seed."""
        first = self.budget.seeds[0]
        return [self.cell(number, first) for number in range(self.num_candidates)]

    def choice(self, find: Find) -> Choice:
        """The candidate that is best on validation data; the first of equals."""
        if self.num_candidates == 1:
            return Choice(decided=True, candidate=0)
        rows = [find(cell.config) for cell in self.candidates()]
        if any(row is None for row in rows):
            return Choice(decided=False)
        values = {
            number: self._validation_value(row)
            for number, row in enumerate(rows)
            if row is not None and not row.failure
        }
        if not values:
            return Choice(decided=True)
        sign = 1 if higher_is_better(self.suite.select_by.split("/")[0]) else -1
        best = max(values, key=lambda number: sign * values[number])
        return Choice(decided=True, candidate=best, value=values[best])

    def _validation_value(self, row: Row) -> float:
        measured: dict[str, float] = row.results["metrics"].get("validation", {})
        if self.suite.select_by not in measured:
            raise InvalidSettingError(
                f"Expected the suite {self.suite.name!r} to choose by a measure of the validation "
                f"data, but {self.suite.select_by!r} is not among them: "
                f"{', '.join(measured) or 'there are no validation data'}. Add it to `metrics`, or "
                "choose by another."
            )
        return measured[self.suite.select_by]


@dataclass(frozen=True)
class Plan:
    """The cells of a sweep as far as they are known.

    Args:
        cells: In the order to run them, each once.
        num_unknown: How many more there will be once candidates are chosen.
    """

    cells: list[Cell]
    num_unknown: int


def lines(suite: Suite, budget: str) -> list[Line]:
    """All lines of the table, block by block."""
    spent = suite.budget(budget)
    return [
        Line(suite, spent, variant, method)
        for variant in suite.variants
        for method in suite.methods
    ]


def plan(suite: Suite, budget: str, find: Find) -> Plan:
    """What to run, given what is finished; ask again after each run.

    Within a variant runs that share their data come one after the other: all candidates, then
    seed by seed.
    """
    every = lines(suite, budget)
    cells, num_unknown = [], 0
    for variant in suite.variants:
        block = [line for line in every if line.variant is variant]
        choices = [line.choice(find) for line in block]
        cells += [cell for line in block for cell in line.candidates()]
        cells += _at_other_seeds(block, choices)
        num_unknown += sum(
            len(line.budget.seeds) - 1
            for line, choice in zip(block, choices, strict=True)
            if not choice.decided
        )
    return Plan(list(_distinct(cells)), num_unknown)


def _at_other_seeds(block: list[Line], choices: list[Choice]) -> list[Cell]:
    return [
        line.cell(choice.candidate, seed)
        for seed in block[0].budget.seeds[1:]
        for line, choice in zip(block, choices, strict=True)
        if choice.candidate is not None
    ]


def _distinct(cells: list[Cell]) -> Iterator[Cell]:
    seen: list[Config] = []
    for cell in cells:
        if cell.config not in seen:
            seen.append(cell.config)
            yield cell
