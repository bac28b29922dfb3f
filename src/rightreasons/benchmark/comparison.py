"""Our figures beside the paper's: what a suite came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rightreasons.benchmark.cell import address, data_key, in_words
from rightreasons.benchmark.measure import Figure, Measure, Summary, higher_is_better
from rightreasons.benchmark.plan import Choice, Find, Line, lines
from rightreasons.benchmark.registry import find_suite
from rightreasons.benchmark.store import Row, read_rows
from rightreasons.benchmark.suite import Budget, Suite, Threshold
from rightreasons.run.run import Config

__all__ = [
    "ABSENT",
    "HEADER",
    "ComparedLine",
    "Comparison",
    "Section",
    "compare",
    "compare_line",
    "lay_out",
    "markdown_table",
    "notes_on",
    "show_suite",
    "text_table",
]


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to the same width.

    Example:
        >>> print(text_table(["method", "ours"], [["ERM", "22.4"], ["R3", "97.1"]]))
        method  ours
        ------  ----
        ERM     22.4
        R3      97.1
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, rule, *rows)
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns between bars.

    Example:
        >>> print(markdown_table(["method", "ours"], [["ERM", "22.4"]]))
        | method | ours |
        | --- | --- |
        | ERM | 22.4 |
    """
    lines = (header, ["---"] * len(header), *rows)
    return "\n".join(
        f"| {' | '.join(word.replace('|', '&#124;') for word in row)} |" for row in lines
    )


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
        """The results of the runs that did not fail."""
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


@dataclass(frozen=True)
class Section:
    """A table with its heading."""

    heading: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def lay_out(suite: Suite, lines: Sequence[ComparedLine]) -> list[Section]:
    """The tables of a suite, as its `layout` asks for."""
    return _columns(suite, lines) if suite.layout == "columns" else _blocks(suite, lines)


def _blocks(suite: Suite, lines: Sequence[ComparedLine]) -> list[Section]:
    sections = []
    for variant in suite.variants:
        block = [line for line in lines if line.line.variant.name == variant.name]
        heading = f"{variant.name}: {variant.title}" if variant.title else variant.name
        sections.append(
            Section(heading, HEADER, [row for one in block for row in one.table_rows()])
        )
    return sections


def _columns(suite: Suite, lines: Sequence[ComparedLine]) -> list[Section]:
    """One table a measure, and one that says what was chosen; an empty place was not asked for."""
    found = {(one.line.method.name, one.line.variant.name): one for one in lines}

    def section(
        heading: str, variants: Sequence[str], words: Callable[[ComparedLine], str]
    ) -> Section:
        rows = []
        for method in suite.methods:
            row = [found.get((method.name, variant)) for variant in variants]
            if any(row):
                rows.append([method.name, *("" if one is None else words(one) for one in row)])
        return Section(heading, ["method", *variants], rows)

    def shown(measure: Measure) -> Section:
        heading = f"{measure.name}, per cent" if measure.percent else measure.name
        return section(heading, names, lambda line: line.brief(measure))

    names = [variant.name for variant in suite.variants]
    told = [one.name for one in suite.variants if one.chosen_in is None or one.grids]
    chosen = section("chosen settings", told, ComparedLine.choice_in_words)
    return [*(shown(measure) for measure in suite.measures), chosen]


def notes_on(suite: Suite, budget: str, lines: Sequence[ComparedLine]) -> list[str]:
    """How settings were chosen, what was spent, and what differs from the paper."""
    spent = suite.budget(budget)
    words = in_words(spent.overrides)
    versions = sorted({run["versions"]["rightreasons"] for one in lines for run in one.results})
    return [
        *_titles(suite),
        *_choosing(suite, spent, lines),
        *_borrowing(suite),
        "Ours: mean ± sample standard deviation over n runs, one a seed "
        f"({', '.join(map(str, spent.seeds))}).",
        *([f"Budget {budget}: {words}."] if words else []),
        *_source(suite),
        *suite.protocol,
        *spent.protocol,
        *([f"Runs of several versions: {', '.join(versions)}."] if len(versions) > 1 else []),
    ]


def _titles(suite: Suite) -> list[str]:
    """In the other layout they stand in headings."""
    titled = suite.variants if suite.layout == "columns" else ()
    return [f"{variant.name}: {variant.title}." for variant in titled if variant.title]


def _choosing(suite: Suite, budget: Budget, lines: Sequence[ComparedLine]) -> list[str]:
    counts = sorted({one.line.num_candidates for one in lines})
    if counts[-1] == 1:
        return []
    return [
        f"Settings are chosen by {suite.select_by} on validation data at {_compared_at(budget)}, "
        f"among {' or '.join(map(str, counts))} candidates for every method; "
        f"{_ties(suite)}of equals the first. Test data take no part in it.",
        *_thresholds(suite),
    ]


def _compared_at(budget: Budget) -> str:
    seeds = budget.seeds[: budget.seeds_of_choice]
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))} (mean)"


def _ties(suite: Suite) -> str:
    if not suite.ties_within:
        return ""
    number = "one" if suite.ties_within == 1 else f"{suite.ties_within:g}"
    errors = f"{number} standard error{'' if suite.ties_within == 1 else 's'}"
    return f"candidates within {errors} of the best count as its equals, and "


def _thresholds(suite: Suite) -> list[str]:
    told: dict[Threshold, list[str]] = {}
    for variant in suite.variants:
        threshold = suite.threshold(variant)
        if threshold is not None and variant.chosen_in is None:
            told.setdefault(threshold, []).append(variant.name)
    return [
        f"In {', '.join(names)} only candidates with {key} of at "
        f"{'least' if higher_is_better(key.split('/')[0]) else 'most'} {bound:g} on validation "
        "data are chosen among; if there is none, the one that comes nearest is taken."
        for (key, bound), names in told.items()
    ]


def _borrowing(suite: Suite) -> list[str]:
    told: dict[str, list[str]] = {}
    for variant in suite.variants:
        if variant.chosen_in is not None:
            told.setdefault(variant.chosen_in, []).append(variant.name)
    return [
        f"Settings are not chosen anew in {', '.join(names)}: they are those chosen in {source}."
        for source, names in told.items()
    ]


def _source(suite: Suite) -> list[str]:
    if not suite.figures.source:
        return []
    where = ", in square brackets" if suite.layout == "columns" else ""
    return [f"The paper's figures{where}: {suite.figures.source}."]


@dataclass(frozen=True)
class Comparison:
    """A suite's table: ours, the paper's, the difference, and what differs in the protocol.

    Args:
        suite: Which.
        budget: With which budget.
        lines: Every method in every variant.
    """

    suite: Suite
    budget: str
    lines: Sequence[ComparedLine]

    @property
    def notes(self) -> list[str]:
        """How settings were chosen, what was spent, and what differs from the paper."""
        return notes_on(self.suite, self.budget, self.lines)

    def to_text(self) -> str:
        """For a terminal."""
        return self._put_together(text_table, headings=("", ""))

    def to_markdown(self) -> str:
        """For a document."""
        return self._put_together(markdown_table, headings=("### ", "#### "))

    def to_dict(self) -> dict[str, Any]:
        """For a program; shares stay shares, what is missing is None."""
        told = {name: getattr(self.suite, name) for name in ("title", "paper", "table")}
        return {
            "suite": self.suite.name,
            **told,
            "budget": self.budget,
            "select_by": self.suite.select_by,
            "select_if": self.suite.select_if,
            "lines": [line.to_dict() for line in self.lines],
            "notes": self.notes,
        }

    def _put_together(
        self,
        table: Callable[[Sequence[str], Sequence[Sequence[str]]], str],
        *,
        headings: tuple[str, str],
    ) -> str:
        suite = self.suite
        told = f"{suite.name}, {suite.table} of {suite.paper}, budget {self.budget}"
        blocks = [f"{headings[0]}{suite.title} ({told})"]
        for section in lay_out(suite, self.lines):
            blocks.append(f"{headings[1]}{section.heading}")
            blocks.append(table(section.header, section.rows))
        blocks.append("\n".join(f"- {note}" for note in self.notes))
        return "\n\n".join(blocks) + "\n"


def compare(suite: Suite | str, rows: Sequence[Row], budget: str = "small") -> Comparison:
    """Put the rows of a suite beside the paper's figures.

    Where data changed between runs, only those on the newest data count.

    Args:
        suite: A suite, or the name of one.
        rows: As `run_suite` gives or `read_rows` finds them; those of other suites are left out.
        budget: ``"small"`` or ``"paper"``.
    """
    suite = find_suite(suite)
    find = _newest(rows)
    return Comparison(suite, budget, [compare_line(line, find) for line in lines(suite, budget)])


def show_suite(suite: Suite | str, out: str | Path, *, budget: str = "small") -> Comparison:
    """Compare what a folder holds of a suite with the paper; nothing is run."""
    return compare(suite, read_rows(out), budget)


def _newest(rows: Sequence[Row]) -> Find:
    by_address = {row.address: row for row in rows}
    digests = {data_key(row.config): row.data_sha256 for row in rows}

    def find(config: Config) -> Row | None:
        digest = digests.get(data_key(config))
        return None if digest is None else by_address.get(address(config, digest))

    return find
