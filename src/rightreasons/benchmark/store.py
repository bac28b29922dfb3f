"""The folder of results: rows in a journal, locks for cells in progress, a folder for each run.

::

    results.jsonl       one row for each finished run
    data.jsonl          hashes of the data, so that a finished sweep need not load them again
    cells/ADDRESS.lock  held by the process that runs this cell, or whose worker does
    cells/ID.driver     there while a driver runs; workers that see it share this folder
    runs/ADDRESS/       folder of the run, see `rightreasons.run`
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from rightreasons.benchmark.cell import data_key, read_files, write_files
from rightreasons.benchmark.suite import MACHINE_FIELDS
from rightreasons.core.files import JSON_BYTES, Unreadable, check_file, parse_json, writable_folder
from rightreasons.datasets import Splits
from rightreasons.errors import InvalidSettingError, OutputError, RunNotFoundError
from rightreasons.run.config import Config
from rightreasons.strategies.strategy import resume_files

__all__ = ["DataCache", "Journal", "Row", "Store", "merge_stores", "read_rows"]

logger = logging.getLogger("rightreasons")

RESULTS_FILE = "results.jsonl"
ROW = {"address": str, "config": dict, "data_sha256": str, "finished": str, "results": dict}
MOST_NAMES = 5
"""Most rows that an error names."""
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


class DataCache:
    """Loads the data of runs, and remembers their hashes so that they need not be loaded again.

    A hash is valid while the names, sizes and times of all files in ``data_dir`` and the version
    of this library stay the same. If any of them changes, the data are loaded and hashed again.
    Linked folders are not followed. Memory holds the data of one key at a time.

    Args:
        data_dir: Folder with the files of data sets.
        journal: File in which hashes are kept.
    """

    def __init__(self, data_dir: str | Path | None, journal: Journal) -> None:
        self.data_dir = None if data_dir is None else str(data_dir)
        self._journal = journal
        self._state = _hash_folder(self.data_dir)
        self._digests: dict[str, str] = {
            entry["data_key"]: entry["data_sha256"]
            for entry in journal.entries()
            if entry["state"] == self._state
        }
        self._key = ""
        self._data: Splits | None = None

    def digest(self, config: Config) -> str:
        """The hash of the data of this run."""
        key = data_key(config)
        if key not in self._digests:
            self.load(config)
        return self._digests[key]

    def load(self, config: Config) -> Splits:
        """The data of this run."""
        key = data_key(config)
        if self._data is not None and key == self._key:
            return self._data
        self._data = None  # frees memory before the new data are loaded
        data = replace(config, data_dir=self.data_dir).load_data()
        digest = data.digest()
        if self._digests.get(key) != digest:
            entry = {"data_key": key, "state": self._state, "data_sha256": digest}
            self._journal.append(entry)
        self._key, self._data, self._digests[key] = key, data, digest
        return data

    def forget(self) -> None:
        """Free the memory of the data; their hashes stay known."""
        self._data = None


def _hash_folder(data_dir: str | None) -> str:
    sha = hashlib.sha256(metadata.version("rightreasons").encode())
    for folder, folders, files in os.walk(data_dir) if data_dir is not None else ():
        folders.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            with suppress(FileNotFoundError):  # a link to nothing, or a file just removed
                status = os.stat(path)
                sha.update(os.fsencode(os.path.relpath(path, data_dir)))
                sha.update(f" {status.st_size} {status.st_mtime_ns} ".encode())
    return sha.hexdigest()


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

    def keep(
        self, address: str, config: Config, digest: str, results: dict[str, Any], failure: str
    ) -> None:
        """Add the row of a run that has just ended, and remove what only an unfinished one needs.

        Args:
            address: Address of its cell.
            config: Configuration of the run.
            digest: Hash of its data.
            results: Content of its ``results.json``; empty if it failed.
            failure: Why it failed.
        """
        row = Row(
            address=address,
            config={n: v for n, v in asdict(config).items() if n not in MACHINE_FIELDS},
            data_sha256=digest,
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            results=results,
            failure=failure,
        )
        self.add(row)
        for path in resume_files(self.run_folder(address)):  # large
            path.unlink(missing_ok=True)

    def run_folder(self, address: str) -> Path:
        """Folder of the run of this cell."""
        return self.folder / "runs" / address

    def marker(self) -> Path:
        """A file for a driver to make: a worker that sees it sees this folder."""
        return writable_folder(self.folder / "cells") / f"{uuid.uuid4().hex}.driver"

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


def merge_stores(stores: Sequence[str | Path], out: str | Path) -> list[Row]:
    """Join the results of several machines in one folder, with the folders of their runs.

    Rows of the same cell must agree, and rows of the same data settings must have the same data;
    otherwise nothing is written. The folder may have rows already. Stopped at any time, the same
    call goes on.

    Args:
        stores: Folders that were given to `run_suite`.
        out: Folder to write to, which may be one of them.

    Returns:
        The rows that are new in the folder.
    """
    target = Store(out)
    found = {str(store): read_rows(store) for store in stores}
    _refuse_contradictions({str(out): list(target.rows().values())} | found)
    added = []
    for store, rows in found.items():
        for row in rows:
            with target.claim(row.address) as claimed:
                if not claimed:
                    raise OutputError(
                        f"Expected to write the run {row.address} to {target.folder}, but another "
                        "process runs it there. Wait until it ends."
                    )
                if row.address not in target.rows():
                    folder = Store(store).run_folder(row.address)
                    write_files(target.run_folder(row.address), read_files(folder))
                    target.add(row)
                    added.append(row)
    return added


def _refuse_contradictions(found: Mapping[str, Sequence[Row]]) -> None:
    """Raise if rows of two folders contradict each other."""
    cells: dict[str, tuple[str, Row]] = {}
    digests: dict[str, tuple[str, set[str]]] = {}
    wrong = []
    for store, rows in found.items():
        here: dict[str, set[str]] = {}
        for row in rows:
            here.setdefault(data_key(row.config), set()).add(row.data_sha256)
        for row in rows:
            other, before = cells.setdefault(row.address, (store, row))
            differs = _find_difference(before, row)
            first, known = digests.setdefault(data_key(row.config), (store, set()))
            if first == store:
                known.add(row.data_sha256)
            elif not known & here[data_key(row.config)]:
                other, differs = first, "the data of the same settings differ"
            if differs:
                run = [row.config.get(name) for name in ("data", "recipe", "seed")]
                name = f"{row.address} ({run[0]}, {run[1]}, seed {run[2]})"
                wrong.append(f"{name}: {differs}, in {other} and in {store}")
    if wrong:
        rest = f"; and {len(wrong) - MOST_NAMES} more" if len(wrong) > MOST_NAMES else ""
        raise InvalidSettingError(
            "Expected folders whose rows agree, but these contradict each other: "
            f"{'; '.join(wrong[:MOST_NAMES])}{rest}. Nothing was written. Run them again "
            "with one version on the same data, or leave a folder out."
        )


def _find_difference(row: Row, other: Row) -> str:
    """The first value of two rows that differs by more than rounding; empty if none does."""
    if bool(row.failure) != bool(other.failure):
        return "one of the two failed"
    for part, values in row.results.get("metrics", {}).items():
        there = other.results["metrics"].get(part, {})
        for name in values.keys() & there.keys():  # another version may measure more
            one, two = (math.nan if v is None else v for v in (values[name], there[name]))
            if values[name] != there[name] and not math.isclose(one, two, rel_tol=1e-6):
                return f"{name} ({part}) is {values[name]} and {there[name]}"
    return ""


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
