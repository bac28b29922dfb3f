"""Where results are kept: rows in a journal, claims as locks, a folder for each run.

::

    results.jsonl       one row a finished run
    data.jsonl          hashes of the data, so that a finished sweep need not load them again
    cells/ADDRESS.lock  held by the process that is at this cell
    runs/ADDRESS/       the run itself, see `rightreasons.run`
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from rightreasons.benchmark.journal import Journal
from rightreasons.checkpoint import writable_folder
from rightreasons.errors import RunNotFoundError

__all__ = ["Row", "Store", "read_rows"]

RESULTS_FILE = "results.jsonl"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A finished run.

    Args:
        address: Of its cell.
        config: What it was asked to do.
        data_sha256: Of the data it saw.
        finished: When, in UTC.
        results: As in its ``results.json``; empty if it failed.
        failure: Why it came to nothing: a loss that became infinite.
    """

    address: str
    config: dict[str, Any]
    data_sha256: str
    finished: str
    results: dict[str, Any] = field(default_factory=dict)
    failure: str = ""


class Store:
    """The results of any number of suites, shared by any number of processes.

    Args:
        out: The folder.
    """

    def __init__(self, out: str | Path) -> None:
        self.folder = writable_folder(out)
        self._results = Journal(self.folder / RESULTS_FILE)
        self.data = Journal(self.folder / "data.jsonl")

    def rows(self) -> dict[str, Row]:
        """All rows so far, by address."""
        return {row.address: row for row in _rows(self._results)}

    def add(self, row: Row) -> None:
        """Keep a row for good."""
        self._results.append(asdict(row))

    def run_folder(self, address: str) -> Path:
        """Where the run of this cell is."""
        return self.folder / "runs" / address

    @contextmanager
    def claim(self, address: str) -> Iterator[bool]:
        """Try to be the one process at this cell; tells whether it worked.

        The kernel lets go of the claim when the process ends, however it ends.
        """
        lock = FileLock(writable_folder(self.folder / "cells") / f"{address}.lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()


def read_rows(out: str | Path) -> list[Row]:
    """Read all rows of a folder, in the order the runs finished."""
    path = Path(out) / RESULTS_FILE
    if not path.exists():
        raise RunNotFoundError(
            f"Expected results of a suite in {out}, but it has no {RESULTS_FILE}. Name the folder "
            "that was given to `rightreasons bench run SUITE --out`."
        )
    return _rows(Journal(path))


def _rows(journal: Journal) -> list[Row]:
    known = {entry.name for entry in fields(Row)}
    return [
        Row(**{name: value for name, value in entry.items() if name in known})
        for entry in journal.entries()
    ]
