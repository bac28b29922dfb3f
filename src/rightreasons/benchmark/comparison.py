"""Our figures beside the paper's: what a suite came to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rightreasons.benchmark.catalogue import find_suite
from rightreasons.benchmark.cell import address, data_key
from rightreasons.benchmark.compared_line import ComparedLine, compare_line
from rightreasons.benchmark.layout import lay_out
from rightreasons.benchmark.note import notes_on
from rightreasons.benchmark.plan import Find, lines
from rightreasons.benchmark.store import Row, read_rows
from rightreasons.benchmark.suite import Suite
from rightreasons.benchmark.table import markdown_table, text_table
from rightreasons.run import Config

__all__ = ["Comparison", "compare", "show_suite"]


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
