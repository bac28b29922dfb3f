"""What is left to do: candidates first, then the chosen one at every seed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from rightreasons.benchmark.cell import Cell, make_cell
from rightreasons.benchmark.choice import Choice, choose
from rightreasons.benchmark.store import Row
from rightreasons.benchmark.suite import Budget, Method, Suite, Variant
from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.run import Config

__all__ = ["Find", "Line", "Plan", "lines", "plan"]

Find = Callable[[Config], Row | None]
"""Looks a run up; None if it is not finished."""


@dataclass(frozen=True)
class Line:
    """A method in a variant: a line of a block of the table."""

    suite: Suite
    budget: Budget
    variant: Variant
    method: Method

    @property
    def num_candidates(self) -> int:
        """How many there are to choose among, here or where the choice is made."""
        return len(self.suite.grid(self.variant, self.method))

    @property
    def source(self) -> Line:
        """The line where this one's candidate is chosen: itself, if it is chosen here."""
        if self.variant.chosen_in is None:
            return self
        return replace(self, variant=self.suite.variant(self.variant.chosen_in))

    def cell(self, candidate: int, seed: int) -> Cell:
        """The run with this candidate at this seed."""
        chosen = self.suite.grid(self.variant, self.method)[candidate]
        return make_cell(self.suite, self.budget, self.variant, self.method, chosen, seed)

    def possible_cells(self) -> list[Cell]:
        """Every candidate at the first seed, whether it will run or not."""
        first = self.budget.seeds[0]
        return [self.cell(number, first) for number in range(self.num_candidates)]

    def candidates(self) -> list[Cell]:
        """All of them, seed by seed, at those to choose at; none where that is done elsewhere."""
        return [
            self.cell(number, seed)
            for seed in self.budget.seeds[: self._num_seeds_of_choice()]
            for number in range(self.num_candidates)
        ]

    def seeds_after_choice(self) -> Sequence[int]:
        """The seeds the chosen candidate runs at; not those it was compared at here."""
        return self.budget.seeds[self._num_seeds_of_choice() :]

    def _num_seeds_of_choice(self) -> int:
        if self.source is not self:
            return 0
        return self.budget.seeds_of_choice if self.num_candidates > 1 else 1

    def choice(self, find: Find) -> Choice:
        """The candidate that is best on validation data; the first of equals."""
        if self.num_candidates == 1:
            return Choice(decided=True, candidate=0)
        rows = [find(cell.config) for cell in self.source.candidates()]
        by_candidate = [
            rows[number :: self.num_candidates] for number in range(self.num_candidates)
        ]
        return choose(self.suite, by_candidate, self.suite.threshold(self.source.variant))


@dataclass(frozen=True)
class Plan:
    """The cells of a sweep as far as they are known.

    Args:
        cells: In the order to run them, each once.
        num_unknown: How many more there will be once candidates are chosen.
    """

    cells: list[Cell]
    num_unknown: int


def lines(
    suite: Suite,
    budget: str,
    *,
    variants: Collection[str] | None = None,
    methods: Collection[str] | None = None,
) -> list[Line]:
    """The lines of the table, block by block.

    Args:
        suite: Which.
        budget: With which budget.
        variants: The names of those wanted; None is all.
        methods: The names of those wanted; None is all.
    """
    spent = suite.budget(budget)
    for kind, wanted, known in (
        ("variant", variants, [variant.name for variant in suite.variants]),
        ("method", methods, [method.name for method in suite.methods]),
    ):
        for name in wanted or ():
            if name not in known:
                raise UnknownNameError(kind, name, known)
    found = [
        Line(suite, spent, variant, method)
        for variant in suite.variants
        for method in suite.methods_of(variant)
        if (variants is None or variant.name in variants)
        and (methods is None or method.name in methods)
    ]
    if not found:
        raise InvalidSettingError(
            f"Expected a part of the suite {suite.name!r} with at least one method in one variant, "
            f"but got variants {_told(variants)} and methods {_told(methods)}."
        )
    return found


def plan(
    suite: Suite,
    budget: str,
    find: Find,
    *,
    variants: Collection[str] | None = None,
    methods: Collection[str] | None = None,
) -> Plan:
    """What to run, given what is finished; ask again after each run.

    Within a variant runs that share their data come one after the other: all candidates, then
    seed by seed. A part of a suite has also the candidates in other variants that its own choices
    depend on.
    """
    cells, num_unknown = [], 0
    for block in _blocks(lines(suite, budget, variants=variants, methods=methods)):
        choices = [line.choice(find) for line in block]
        cells += [cell for line in block for cell in _needed(line)]
        cells += _after_choice(block, choices)
        num_unknown += sum(
            len(line.seeds_after_choice())
            for line, choice in zip(block, choices, strict=True)
            if not choice.decided
        )
    return Plan(list(_distinct(cells)), num_unknown)


def _blocks(wanted: Sequence[Line]) -> list[list[Line]]:
    blocks: dict[str, list[Line]] = {}
    for line in wanted:
        blocks.setdefault(line.variant.name, []).append(line)
    return list(blocks.values())


def _needed(line: Line) -> list[Cell]:
    """Nothing needs to run elsewhere where there is nothing to choose."""
    own = line.source is line
    return line.source.candidates() if own or line.num_candidates > 1 else []


def _after_choice(block: list[Line], choices: list[Choice]) -> list[Cell]:
    return [
        line.cell(choice.candidate, seed)
        for seed in block[0].budget.seeds
        for line, choice in zip(block, choices, strict=True)
        if choice.candidate is not None and seed in line.seeds_after_choice()
    ]


def _told(names: Collection[str] | None) -> str:
    return "of any name" if names is None else str(list(names))


def _distinct(cells: list[Cell]) -> Iterator[Cell]:
    seen: list[Config] = []
    for cell in cells:
        if cell.config not in seen:
            seen.append(cell.config)
            yield cell
