"""Our figures beside the paper's: the tables of a suite, and notes on how they came about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rightreasons.benchmark.cell import data_key, describe_overrides, row_address
from rightreasons.benchmark.compared_line import (
    HEADER,
    ComparedLine,
    compare_line,
    format_difference,
)
from rightreasons.benchmark.measure import Measure, higher_is_better
from rightreasons.benchmark.plan import Find, list_lines
from rightreasons.benchmark.registry import find_suite
from rightreasons.benchmark.store import Row, read_rows
from rightreasons.benchmark.suite import Budget, Suite, Threshold
from rightreasons.run.config import Config

__all__ = [
    "Comparison",
    "Section",
    "compare",
    "make_sections",
    "markdown_table",
    "show_suite",
    "text_table",
    "write_notes",
]


@dataclass(frozen=True)
class Comparison:
    """A suite's table: our figures, the paper's, their difference, and notes on the protocol.

    Args:
        suite: The suite.
        budget: Name of its budget.
        lines: One line for every method in every variant.
    """

    suite: Suite
    budget: str
    lines: Sequence[ComparedLine]

    @property
    def notes(self) -> list[str]:
        """How settings were chosen, with which budget, and what differs from the paper."""
        return write_notes(self.suite, self.budget, self.lines)

    def to_text(self) -> str:
        """The tables and notes as plain text."""
        return self._join_sections(text_table, headings=("", ""))

    def to_markdown(self) -> str:
        """The tables and notes as Markdown."""
        return self._join_sections(markdown_table, headings=("### ", "#### "))

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary for programs; fractions stay fractions, a missing number is None."""
        return {
            "suite": self.suite.name,
            "title": self.suite.title,
            "paper": self.suite.paper,
            "table": self.suite.table,
            "budget": self.budget,
            "select_by": self.suite.select_by,
            "select_if": self.suite.select_if,
            "lines": [line.to_dict() for line in self.lines],
            "notes": self.notes,
        }

    def _join_sections(
        self,
        table: Callable[[Sequence[str], Sequence[Sequence[str]]], str],
        *,
        headings: tuple[str, str],
    ) -> str:
        suite = self.suite
        origin = f"{suite.table} of {suite.paper}" if suite.paper else suite.table
        source = f"{suite.name}, {origin}, budget {self.budget}"
        blocks = [f"{headings[0]}{suite.title} ({source})"]
        for section in make_sections(suite, self.lines):
            blocks.append(f"{headings[1]}{section.heading}")
            blocks.append(table(section.header, section.rows))
        blocks.append("\n".join(f"- {note}" for note in self.notes))
        return "\n\n".join(blocks) + "\n"


def compare(suite: Suite | str, rows: Sequence[Row], budget: str = "small") -> Comparison:
    """Put the rows of a suite beside the paper's figures.

    If the data changed between runs, only runs on the newest data count.

    Args:
        suite: A suite, or the name of one.
        rows: Rows from `run_suite` or `read_rows`; rows of other suites are ignored.
        budget: ``"small"`` or ``"paper"``.
    """
    suite = find_suite(suite)
    find = _find_newest(rows)
    return Comparison(
        suite, budget, [compare_line(line, find) for line in list_lines(suite, budget)]
    )


def show_suite(suite: Suite | str, out: str | Path, *, budget: str = "small") -> Comparison:
    """Compare the rows of a suite in a folder with the paper; nothing is run."""
    return compare(suite, read_rows(out), budget)


def _find_newest(rows: Sequence[Row]) -> Find:
    by_address = {row.address: row for row in rows}
    digests = {data_key(row.config): row.data_sha256 for row in rows}

    def find(config: Config) -> Row | None:
        digest = digests.get(data_key(config))
        return None if digest is None else by_address.get(row_address(config, digest))

    return find


@dataclass(frozen=True)
class Section:
    """A table with its heading."""

    heading: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def make_sections(suite: Suite, lines: Sequence[ComparedLine]) -> list[Section]:
    """Make the tables of a suite in its `layout`."""
    layouts = {"blocks": _make_blocks, "columns": _make_columns, "reference": _make_references}
    return layouts[suite.layout](suite, lines)


def _make_blocks(suite: Suite, lines: Sequence[ComparedLine]) -> list[Section]:
    sections = []
    for variant in suite.variants:
        block = [line for line in lines if line.line.variant.name == variant.name]
        heading = f"{variant.name}: {variant.title}" if variant.title else variant.name
        sections.append(
            Section(heading, HEADER, [row for one in block for row in one.table_rows()])
        )
    return sections


def _make_columns(suite: Suite, lines: Sequence[ComparedLine]) -> list[Section]:
    """One table for each measure, and one of chosen settings; cells without a run stay empty."""
    by_name = {(one.line.method.name, one.line.variant.name): one for one in lines}

    def make_section(
        heading: str, variants: Sequence[str], describe: Callable[[ComparedLine], str]
    ) -> Section:
        rows = []
        for method in suite.methods:
            row = [by_name.get((method.name, variant)) for variant in variants]
            if any(row):
                rows.append([method.name, *("" if one is None else describe(one) for one in row)])
        return Section(heading, ["method", *variants], rows)

    def make_table(measure: Measure) -> Section:
        heading = f"{measure.name}, per cent" if measure.percent else measure.name
        return make_section(heading, names, lambda line: line.brief(measure))

    names = [variant.name for variant in suite.variants]
    choosing = [one.name for one in suite.variants if one.chosen_in is None or one.grids]
    chosen = make_section("chosen settings", choosing, ComparedLine.describe_choice)
    return [*(make_table(measure) for measure in suite.measures), chosen]


def _make_references(suite: Suite, lines: Sequence[ComparedLine]) -> list[Section]:
    """One table for each variant: all measures, and the first less that of the reference."""
    first = suite.measures[0]
    sections = []
    for variant in suite.variants:
        block = [line for line in lines if line.line.variant.name == variant.name]
        by_name = {line.line.method.name: line for line in block}
        reference = next((name for name in suite.references if name in by_name), None)
        beside = None if reference is None else by_name[reference].ours(first)
        rows = []
        for one in block:
            ours = one.ours(first)
            less = None if ours is None or beside is None else ours.mean - beside.mean
            rows.append(
                [
                    one.line.method.name,
                    *(one.brief(measure) for measure in suite.measures),
                    format_difference(less, first),
                ]
            )
        heading = f"{variant.name}: {variant.title}" if variant.title else variant.name
        header = ["method", *(measure.name for measure in suite.measures)]
        sections.append(Section(heading, [*header, f"less {reference or 'none'}"], rows))
    return sections


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table with columns padded to the same width.

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
    """Format a table in Markdown.

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


def write_notes(suite: Suite, budget: str, lines: Sequence[ComparedLine]) -> list[str]:
    """Write how settings were chosen, with which budget, and what differs from the paper."""
    spent = suite.budget(budget)
    words = describe_overrides(spent.overrides)
    versions = sorted({run["versions"]["rightreasons"] for one in lines for run in one.results})
    return [
        *_note_titles(suite),
        *_note_choice(suite, spent, lines),
        *_note_sources(suite),
        "Ours: mean ± sample standard deviation over n runs, one a seed "
        f"({', '.join(map(str, spent.seeds))}).",
        *([f"Budget {budget}: {words}."] if words else []),
        *_note_figures(suite),
        *suite.protocol,
        *spent.protocol,
        *([f"Runs of several versions: {', '.join(versions)}."] if len(versions) > 1 else []),
    ]


def _note_titles(suite: Suite) -> list[str]:
    """Titles of variants; the other layout has them in headings."""
    titled = suite.variants if suite.layout == "columns" else ()
    return [f"{variant.name}: {variant.title}." for variant in titled if variant.title]


def _note_choice(suite: Suite, budget: Budget, lines: Sequence[ComparedLine]) -> list[str]:
    counts = sorted({one.line.num_candidates for one in lines})
    if counts[-1] == 1:
        return []
    return [
        f"Settings are chosen by {suite.select_by} on validation data at "
        f"{_describe_seeds(budget)}, among {' or '.join(map(str, counts))} candidates for every "
        "method; "
        f"{_describe_ties(suite)}of equals the first. Test data take no part in it.",
        *_note_own_choices(suite, budget),
        *_note_thresholds(suite),
    ]


def _note_own_choices(suite: Suite, budget: Budget) -> list[str]:
    """How variants choose that do not choose as the suite does."""
    variants: dict[tuple[str, str], list[str]] = {}
    for one in suite.variants:
        if one.select_by is not None or one.seeds_of_choice is not None:
            words = suite.key_of(one), _describe_seeds(budget, one.seeds_of_choice)
            variants.setdefault(words, []).append(one.name)
    return [
        f"In {', '.join(names)} they are chosen by {key} at {seeds}."
        for (key, seeds), names in variants.items()
    ]


def _describe_seeds(budget: Budget, number: int | None = None) -> str:
    seeds = budget.seeds[: number or budget.seeds_of_choice]
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))} (mean)"


def _describe_ties(suite: Suite) -> str:
    if not suite.ties_within:
        return ""
    number = "one" if suite.ties_within == 1 else f"{suite.ties_within:g}"
    errors = f"{number} standard error{'' if suite.ties_within == 1 else 's'}"
    return f"candidates within {errors} of the best count as its equals, and "


def _note_thresholds(suite: Suite) -> list[str]:
    variants: dict[Threshold, list[str]] = {}
    for variant in suite.variants:
        threshold = suite.threshold(variant)
        if threshold is not None and variant.chosen_in is None:
            variants.setdefault(threshold, []).append(variant.name)
    return [
        f"In {', '.join(names)} only candidates with {key} of at "
        f"{'least' if higher_is_better(key.split('/')[0]) else 'most'} {bound:g} on validation "
        "data are chosen among; if there is none, the one that comes nearest is taken."
        for (key, bound), names in variants.items()
    ]


def _note_sources(suite: Suite) -> list[str]:
    variants: dict[str, list[str]] = {}
    for variant in suite.variants:
        if variant.chosen_in is not None:
            variants.setdefault(variant.chosen_in, []).append(variant.name)
    return [
        f"Settings are not chosen anew in {', '.join(names)}: they are those chosen in {source}."
        for source, names in variants.items()
    ]


def _note_figures(suite: Suite) -> list[str]:
    if not suite.figures.source:
        return []
    where = ", in square brackets" if suite.layout == "columns" else ""
    return [f"The paper's figures{where}: {suite.figures.source}."]
