"""Our figures beside the paper's: what a suite came to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rightreasons.benchmark.catalogue import find_suite
from rightreasons.benchmark.cell import address, data_key, in_words
from rightreasons.benchmark.compared_line import HEADER, ComparedLine, compare_line
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
        suite, spent = self.suite, self.suite.budget(self.budget)
        seeds, words = ", ".join(map(str, spent.seeds)), in_words(spent.overrides)
        counts = sorted({line.line.num_candidates for line in self.lines})
        versions = sorted(
            {run["versions"]["rightreasons"] for line in self.lines for run in line.results}
        )
        chosen = (
            f"Settings are chosen by {suite.select_by} on validation data at seed "
            f"{spent.seeds[0]}, among {' or '.join(map(str, counts))} candidates for every method; "
            "of equals the first. Test data take no part in it."
        )
        return [
            *([chosen] if counts[-1] > 1 else []),
            f"Ours: mean ± sample standard deviation over n runs, one a seed ({seeds}).",
            *([f"Budget {self.budget}: {words}."] if words else []),
            *([f"The paper's figures: {suite.figures.source}."] if suite.figures.source else []),
            *suite.protocol,
            *spent.protocol,
            *([f"Runs of several versions: {', '.join(versions)}."] if len(versions) > 1 else []),
        ]

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
        for variant in suite.variants:
            block = [line for line in self.lines if line.line.variant.name == variant.name]
            title = f": {variant.title}" if variant.title else ""
            blocks.append(f"{headings[1]}{variant.name}{title}")
            blocks.append(table(HEADER, [row for line in block for row in line.table_rows()]))
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
