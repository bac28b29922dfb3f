"""One line of a table: what was chosen for a method in a variant, and the results of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rightreasons.benchmark.cell import describe_overrides
from rightreasons.benchmark.measure import Figure, Measure, Summary
from rightreasons.benchmark.plan import Choice, Find, Line
from rightreasons.benchmark.store import Row

__all__ = ["ABSENT", "HEADER", "ComparedLine", "compare_line", "format_difference"]

HEADER = ("method", "measure", "ours", "paper", "difference", "chosen")
ABSENT = "–"
"""Stands for a number that was not measured, or that the paper does not give."""


@dataclass(frozen=True)
class ComparedLine:
    """The chosen candidate of a method in a variant, and the results of its runs.

    Args:
        line: The method and the variant.
        choice: The chosen candidate.
        rows: Finished runs of the chosen candidate, including failed ones.
    """

    line: Line
    choice: Choice
    rows: tuple[Row, ...]

    @property
    def chosen(self) -> Mapping[str, Any] | None:
        """Overrides of the chosen candidate; None if there is none (yet)."""
        if self.choice.candidate is None:
            return None
        return self.line.grid[self.choice.candidate]

    @property
    def results(self) -> list[dict[str, Any]]:
        """The results of the runs that did not fail."""
        return [row.results for row in self.rows if not row.failure]

    @property
    def num_failed(self) -> int:
        """Number of failed runs."""
        return len(self.rows) - len(self.results)

    def ours(self, measure: Measure) -> Summary | None:
        """Our mean and deviation over the finished seeds; None if there are none."""
        return measure.summary(self.results)

    def paper(self, measure: Measure) -> Figure | None:
        """The paper's figure, if it has one."""
        figures = self.line.suite.figures
        return figures.find(self.line.variant.name, self.line.method.name, measure.name)

    def difference(self, measure: Measure) -> float | None:
        """Our mean minus the paper's."""
        ours, paper = self.ours(measure), self.paper(measure)
        return None if ours is None or paper is None else ours.mean - paper.mean

    def table_rows(self) -> list[list[str]]:
        """One row for each measure, in the order of `HEADER`; only the first names the method."""
        rows = [
            [
                "",
                measure.name,
                self._describe_ours(measure),
                _format_number(self.paper(measure), measure),
                format_difference(self.difference(measure), measure),
                "",
            ]
            for measure in self.line.suite.measures
        ]
        rows[0][0], rows[0][-1] = self.line.method.name, self.describe_choice()
        return rows

    def brief(self, measure: Measure) -> str:
        """Our figure, and the paper's in brackets, for a table with a column for each variant."""
        paper = self.paper(measure)
        brackets = "" if paper is None else f" [{_format_number(paper, measure)}]"
        ours = self.ours(measure)
        complete = ours is not None and ours.num_runs == len(self.line.budget.seeds)
        words = _format_number(ours, measure) if complete else self._describe_ours(measure)
        return f"{words}{brackets}"

    def describe_choice(self) -> str:
        """The chosen settings, their validation value, and the variant where they were chosen."""
        source = self.line.variant.chosen_in
        if self.chosen is None:
            reason = "none: all candidates failed" if self.choice.decided else "not yet"
            return reason if source is None else f"{reason}, in {source}"
        words = describe_overrides(self.chosen) or "nothing to choose"
        if source is not None and self.line.num_candidates > 1:
            return f"{words} (chosen in {source})"
        value, suite = self.choice.value, self.line.suite
        reached = [] if value is None else [f"{suite.key_of(self.line.variant)} {value:.4f}"]
        threshold = suite.threshold(self.line.variant)
        if self.choice.fell_short and threshold is not None:
            reached.append(f"no candidate reached {threshold[0]} {threshold[1]:g}")
        return f"{words} ({'; '.join(reached)})" if reached else words

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary for programs; a missing number is None."""
        measures = {
            measure.name: {
                "ours": _as_dict(self.ours(measure)),
                "paper": _as_dict(self.paper(measure)),
                "difference": self.difference(measure),
            }
            for measure in self.line.suite.measures
        }
        return {
            "variant": self.line.variant.name,
            "method": self.line.method.name,
            "num_candidates": self.line.num_candidates,
            "chosen": self.chosen,
            "chosen_in": self.line.variant.chosen_in,
            "chosen_value": self.choice.value,
            "fell_short": self.choice.fell_short,
            "num_seeds": len(self.line.budget.seeds),
            "num_failed": self.num_failed,
            "measures": measures,
        }

    def _describe_ours(self, measure: Measure) -> str:
        ours, expected = self.ours(measure), len(self.line.budget.seeds)
        failed = f", {self.num_failed} failed" if self.num_failed else ""
        if ours is None:
            return ABSENT if self.results else f"missing{failed}"
        missing = "" if ours.num_runs == expected else f" of {expected}"
        return f"{_format_number(ours, measure)} (n={ours.num_runs}{missing}{failed})"


def compare_line(line: Line, find: Find) -> ComparedLine:
    """Find the chosen candidate of a line and all its runs."""
    choice = line.choice(find)
    if choice.candidate is None:
        return ComparedLine(line, choice, ())
    rows = [find(line.cell(choice.candidate, seed).config) for seed in line.budget.seeds]
    return ComparedLine(line, choice, tuple(row for row in rows if row is not None))


def _format_number(number: Figure | Summary | None, measure: Measure) -> str:
    if number is None:
        return ABSENT
    words = _format_value(number.mean, measure)
    return (
        words
        if number.deviation is None
        else f"{words} ± {_format_value(number.deviation, measure)}"
    )


def format_difference(difference: float | None, measure: Measure) -> str:
    """Write a difference of two numbers of a measure, with its sign."""
    if difference is None:
        return ABSENT
    return f"{'+' if difference >= 0 else '−'}{_format_value(abs(difference), measure)}"


def _format_value(value: float, measure: Measure) -> str:
    return f"{100 * value:.2f}" if measure.percent else f"{value:.4g}"


def _as_dict(number: Figure | Summary | None) -> dict[str, Any] | None:
    return None if number is None else asdict(number)
