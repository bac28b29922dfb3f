"""The folder of results: rows in a journal, locks for cells in progress, a folder for each run.

::

    results.jsonl       one row for each finished run
    data.jsonl          hashes of the data, so that a finished sweep need not load them again
    cells/ADDRESS.lock  held by the process that runs this cell
    runs/ADDRESS/       folder of the run, see `rightreasons.run`
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from rightreasons.core.files import JSON_BYTES, Unreadable, check_file, parse_json, writable_folder
from rightreasons.errors import OutputError, RunNotFoundError

__all__ = ["Journal", "Row", "Store", "read_rows"]

logger = logging.getLogger("rightreasons")

RESULTS_FILE = "results.jsonl"
ROW = {"address": str, "config": dict, "data_sha256": str, "finished": str, "results": dict}
DIGEST = {"data_key": str, "state": str, "data_sha256": str}


class Journal:
    """JSON objects, one on each line, appended by any number of processes.

    A writer holds a lock, writes its line and waits until it is on the disk. A killed writer may
    leave a line without an end: readers skip it, and the next writer cuts it off.

    Args:
        path: The file, which need not exist. The lock file lies in the same folder.
        types: Types of the values that every entry has, by name; other lines are damaged.
    """

    def __init__(self, path: Path, types: Mapping[str, type] | None = None) -> None:
        self.path = path
        self.types = types or {}

    def is_whole(self, entry: dict[str, Any]) -> bool:
        """Whether an entry has all values that it must have."""
        return all(isinstance(entry.get(name), kind) for name, kind in self.types.items())

    def append(self, entry: dict[str, Any]) -> None:
        """Add a line; when this returns, it is on the disk."""
        line = json.dumps(entry, allow_nan=False).encode() + b"\n"
        try:
            with FileLock(f"{self.path}.lock"), self.path.open("a+b") as file:
                _cut_torn_line(file)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(
                f"Expected to append to {self.path}, but it cannot be written "
                f"({error.strerror or error}). Make room or choose another folder with --out."
            ) from error

    def entries(self) -> list[dict[str, Any]]:
        """Read all complete lines, in the order they were written."""
        try:
            check_file(self.path, limit=JSON_BYTES)
        except FileNotFoundError:
            return []
        except Unreadable as error:
            raise RunNotFoundError(
                f"Expected rows of results in {self.path}, but cannot read it: {error}."
            ) from error
        entries = []
        *lines, _unfinished = self.path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, start=1):
            try:
                entry = parse_json(line)
            except Unreadable:
                entry = None
            if isinstance(entry, dict) and self.is_whole(entry):
                entries.append(entry)
            else:
                logger.warning(
                    "Line %d of %s is damaged and does not count; its run will be repeated.",
                    number,
                    self.path,
                )
        return entries


def _cut_torn_line(file: BinaryIO) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 1, 0))
    if file.read(1) not in (b"", b"\n"):
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A finished run.

    Args:
        address: Address of its cell.
        config: Configuration of the run.
        data_sha256: Hash of its data.
        finished: Time at which it finished, in UTC.
        results: Content of its ``results.json``; empty if it failed.
        failure: Why it failed: a loss that became infinite.
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
        self._results = Journal(self.folder / RESULTS_FILE, ROW)
        self.data = Journal(self.folder / "data.jsonl", DIGEST)

    def rows(self) -> dict[str, Row]:
        """All rows so far, by address."""
        return {row.address: row for row in _read_journal(self._results)}

    def add(self, row: Row) -> None:
        """Append a row to the journal."""
        self._results.append(asdict(row))

    def run_folder(self, address: str) -> Path:
        """Folder of the run of this cell."""
        return self.folder / "runs" / address

    @contextmanager
    def claim(self, address: str) -> Iterator[bool]:
        """Try to lock this cell for this process; yields whether it worked.

        The kernel releases the lock when the process ends, however it ends.
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
    return _read_journal(Journal(path, ROW))


def _read_journal(journal: Journal) -> list[Row]:
    known = {entry.name for entry in fields(Row)}
    return [
        Row(**{name: value for name, value in entry.items() if name in known})
        for entry in journal.entries()
        if _is_measured(entry["results"])
    ]


def _is_measured(results: dict[str, Any]) -> bool:
    """Whether results are empty, as those of a failure, or hold numbers by part and name."""
    parts = results.get("metrics")
    return not results or (
        isinstance(parts, dict)
        and all(isinstance(part, dict) for part in parts.values())
        and all(
            isinstance(value, int | float | None)
            for part in parts.values()
            for value in part.values()
        )
    )
