"""How a comparison is laid out: a table for each variant, or one for each measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rightreasons.benchmark.compared_line import HEADER, ComparedLine
from rightreasons.benchmark.measure import Measure
from rightreasons.benchmark.suite import Suite

__all__ = ["Section", "lay_out"]


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
