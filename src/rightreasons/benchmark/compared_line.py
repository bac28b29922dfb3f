"""A line of the comparison: one method in one variant, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rightreasons.benchmark.cell import in_words
from rightreasons.benchmark.choice import Choice
from rightreasons.benchmark.figures import Figure
from rightreasons.benchmark.measure import Measure, Summary
from rightreasons.benchmark.plan import Find, Line
from rightreasons.benchmark.store import Row

__all__ = ["ABSENT", "HEADER", "ComparedLine", "compare_line"]

HEADER = ("method", "measure", "ours", "paper", "difference", "chosen")
ABSENT = "–"
"""Stands for what was not measured, or is not in the paper."""


@dataclass(frozen=True)
class ComparedLine:
    """What was chosen for a method in a variant, and what its runs came to.

    Args:
        line: Which it is.
        choice: The chosen candidate.
        rows: The finished runs of the chosen candidate, failed ones too.
    """

    line: Line
    choice: Choice
    rows: tuple[Row, ...]

    @property
    def chosen(self) -> Mapping[str, Any] | None:
        """The chosen candidate as the suite states it; None if there is none (yet)."""
        if self.choice.candidate is None:
            return None
        return self.line.suite.grid(self.line.variant, self.line.method)[self.choice.candidate]

    @property
    def results(self) -> list[dict[str, Any]]:
        """Of the runs that did not fail."""
        return [row.results for row in self.rows if not row.failure]

    @property
    def num_failed(self) -> int:
        """Runs that came to nothing."""
        return len(self.rows) - len(self.results)

    def ours(self, measure: Measure) -> Summary | None:
        """Over the seeds that are there; None if none is."""
        return measure.summary(self.results)

    def paper(self, measure: Measure) -> Figure | None:
        """The paper's figure, if it has one."""
        figures = self.line.suite.figures
        return figures.find(self.line.variant.name, self.line.method.name, measure.name)

    def difference(self, measure: Measure) -> float | None:
        """Ours less the paper's."""
        ours, paper = self.ours(measure), self.paper(measure)
        return None if ours is None or paper is None else ours.mean - paper.mean

    def table_rows(self) -> list[list[str]]:
        """One row a measure, in the order of `HEADER`; the method stands in the first alone."""
        rows = [
            [
                "",
                measure.name,
                self._ours_in_words(measure),
                _in_words(self.paper(measure), measure),
                _difference_in_words(self.difference(measure), measure),
                "",
            ]
            for measure in self.line.suite.measures
        ]
        rows[0][0], rows[0][-1] = self.line.method.name, self.choice_in_words()
        return rows

    def brief(self, measure: Measure) -> str:
        """Ours, and the paper's in brackets, for a table with a column for each variant."""
        paper = self.paper(measure)
        beside = "" if paper is None else f" [{_in_words(paper, measure)}]"
        ours = self.ours(measure)
        complete = ours is not None and ours.num_runs == len(self.line.budget.seeds)
        words = _in_words(ours, measure) if complete else self._ours_in_words(measure)
        return f"{words}{beside}"

    def choice_in_words(self) -> str:
        """What was chosen, what it reached, and where."""
        source = self.line.variant.chosen_in
        if self.chosen is None:
            told = "none: all candidates failed" if self.choice.decided else "not yet"
            return told if source is None else f"{told}, in {source}"
        words = in_words(self.chosen) or "nothing to choose"
        if source is not None and self.line.num_candidates > 1:
            return f"{words} (chosen in {source})"
        value, suite = self.choice.value, self.line.suite
        reached = [] if value is None else [f"{suite.select_by} {value:.4f}"]
        threshold = suite.threshold(self.line.variant)
        if self.choice.fell_short and threshold is not None:
            reached.append(f"no candidate reached {threshold[0]} {threshold[1]:g}")
        return f"{words} ({'; '.join(reached)})" if reached else words

    def to_dict(self) -> dict[str, Any]:
        """For a program; what is missing is None."""
        measures = {
            measure.name: {
                "ours": _plain(self.ours(measure)),
                "paper": _plain(self.paper(measure)),
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

    def _ours_in_words(self, measure: Measure) -> str:
        ours, expected = self.ours(measure), len(self.line.budget.seeds)
        failed = f", {self.num_failed} failed" if self.num_failed else ""
        if ours is None:
            return ABSENT if self.results else f"missing{failed}"
        missing = "" if ours.num_runs == expected else f" of {expected}"
        return f"{_in_words(ours, measure)} (n={ours.num_runs}{missing}{failed})"


def compare_line(line: Line, find: Find) -> ComparedLine:
    """Look up what was chosen and all its runs."""
    choice = line.choice(find)
    if choice.candidate is None:
        return ComparedLine(line, choice, ())
    found = [find(line.cell(choice.candidate, seed).config) for seed in line.budget.seeds]
    return ComparedLine(line, choice, tuple(row for row in found if row is not None))


def _in_words(number: Figure | Summary | None, measure: Measure) -> str:
    if number is None:
        return ABSENT
    words = _scaled(number.mean, measure)
    return words if number.deviation is None else f"{words} ± {_scaled(number.deviation, measure)}"


def _difference_in_words(difference: float | None, measure: Measure) -> str:
    if difference is None:
        return ABSENT
    return f"{'+' if difference >= 0 else '−'}{_scaled(abs(difference), measure)}"


def _scaled(value: float, measure: Measure) -> str:
    return f"{100 * value:.2f}" if measure.percent else f"{value:.4g}"


def _plain(number: Figure | Summary | None) -> dict[str, Any] | None:
    return None if number is None else asdict(number)
