"""Run a suite cell by cell; several processes share the cells, and any stop can be resumed."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.progress import Progress, TimeElapsedColumn

from rightreasons.benchmark.cell import Cell, config_key, data_key, row_address
from rightreasons.benchmark.plan import Find, Plan, list_lines, plan
from rightreasons.benchmark.registry import find_suite
from rightreasons.benchmark.store import Journal, Row, Store
from rightreasons.benchmark.suite import MACHINE_FIELDS, Suite
from rightreasons.core.progress import live_bar
from rightreasons.datasets import Splits
from rightreasons.errors import InvalidSettingError, NonFiniteLossError
from rightreasons.run.config import Config
from rightreasons.run.run import load_run, train_run
from rightreasons.strategies.strategy import resume_files

__all__ = ["DataCache", "run_suite"]

logger = logging.getLogger("rightreasons")

WAIT_SECONDS = 0.5


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


def run_suite(
    suite: Suite | str,
    *,
    out: str | Path,
    data_dir: str | Path | None = None,
    budget: str = "small",
    variants: Collection[str] | None = None,
    methods: Collection[str] | None = None,
    seeds: Collection[int] | None = None,
    progress: bool | None = None,
    accelerator: str = "auto",
) -> list[Row]:
    """Run the unfinished cells of a suite, or of a part of it, and return all its rows.

    Several processes may run at once with the same ``out``: they share the cells, even when they
    run different parts. Set ``OMP_NUM_THREADS`` to the number of cores divided by the number of
    processes. A process may be killed at any time: finished cells are kept, and an unfinished
    cell resumes from its checkpoint.

    Args:
        suite: A suite, or the name of one.
        out: Folder of the results; several suites may share it.
        data_dir: Folder with the files of data sets.
        budget: ``"small"`` or ``"paper"``.
        variants: Names of the variants to run; None runs all. If their settings are chosen in
            another variant, its candidates run too.
        methods: Names of the methods to run; None runs all. In a name ``*`` stands for anything,
            also in that of a variant.
        seeds: Some of the budget's seeds; None runs all. Only where no settings are chosen.
        progress: Whether to show a bar; None shows one on a terminal.
        accelerator: As for `fit`.

    Raises:
        KeyboardInterrupt: After Ctrl-C; the message says how to resume.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise InvalidSettingError(
            "Expected a process of its own for a suite, but it was started by torchrun. Start "
            "`rightreasons bench run` as often as you like with the same --out: the processes "
            "share the cells."
        )
    part = _Part(find_suite(suite), budget, variants, methods, seeds)
    store = Store(out)
    sweep = _Sweep(part, store, DataCache(data_dir, store.data), accelerator)
    with live_bar(TimeElapsedColumn(), show=progress) as bar:
        try:
            return sweep.run(bar)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"Stopped. {sweep.status}, and what was begun is saved in {store.folder}; the same "
                "command goes on from there."
            ) from None


@dataclass(frozen=True)
class _Part:
    """The part of a suite to run; wrong names and settings raise when it is created."""

    suite: Suite
    budget: str
    variants: Collection[str] | None
    methods: Collection[str] | None
    seeds: Collection[int] | None

    def __post_init__(self) -> None:
        for line in list_lines(
            self.suite,
            self.budget,
            variants=self.variants,
            methods=self.methods,
            seeds=self.seeds,
        ):
            for cell in line.possible_cells():
                cell.config.build_objective()
                cell.config.build_strategy()

    def plan(self, find: Find) -> Plan:
        return plan(
            self.suite,
            self.budget,
            find,
            variants=self.variants,
            methods=self.methods,
            seeds=self.seeds,
        )


class _Sweep:
    def __init__(self, part: _Part, store: Store, data: DataCache, accelerator: str) -> None:
        self.part = part
        self.store = store
        self.data = data
        self.accelerator = accelerator
        self.status = "Nothing is finished yet"

    def run(self, bar: Progress) -> list[Row]:
        """Run cells until all are finished, by this process or another."""
        task = bar.add_task("starting", total=None)
        while True:
            find = self._finder()
            planned = self.part.plan(find)
            finished = [row for row in (find(cell.config) for cell in planned.cells) if row]
            missing = [cell for cell in planned.cells if find(cell.config) is None]
            num_cells = len(planned.cells) + planned.num_unknown
            self.status = f"{len(finished)} of {num_cells} cells are finished"
            bar.update(task, total=num_cells, completed=len(finished))
            if not missing:
                return finished
            for cell in missing:
                bar.update(task, description=cell.name)
                if self._run_if_free(cell):
                    break
            else:
                bar.update(task, description="waiting for cells other processes are at")
                time.sleep(WAIT_SECONDS)

    def _finder(self) -> Find:
        rows = self.store.rows()
        begun = {address.partition("-")[0] for address in rows}

        def find(config: Config) -> Row | None:
            if config_key(config) not in begun:
                return None  # the data need not be loaded for their hash
            return rows.get(self._address(config))

        return find

    def _address(self, config: Config) -> str:
        return row_address(config, self.data.digest(config))

    def _run_if_free(self, cell: Cell) -> bool:
        """Run a cell unless another process runs it; returns False if one does."""
        address = self._address(cell.config)
        with self.store.claim(address) as claimed:
            if claimed and address not in self.store.rows():
                data = self.data.load(cell.config)
                if self._address(cell.config) == address:  # else the data changed meanwhile
                    logger.info("%s; next: %s", self.status, cell.name)
                    self._run(cell.config, address, data)
        return claimed

    def _run(self, config: Config, address: str, data: Splits) -> None:
        config = replace(config, data_dir=self.data.data_dir, accelerator=self.accelerator)
        folder = self.store.run_folder(address)
        results: dict[str, Any] = {}
        failure = ""
        try:
            train_run(config, folder, resume=True, data=data, progress=False)
            results = load_run(folder).results  # as written: a number that is not finite is null
        except NonFiniteLossError as error:
            failure = str(error)
        row = Row(
            address=address,
            config={n: v for n, v in asdict(config).items() if n not in MACHINE_FIELDS},
            data_sha256=self.data.digest(config),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            results=results,
            failure=failure,
        )
        self.store.add(row)
        for path in resume_files(folder):  # large, and no longer needed
            path.unlink(missing_ok=True)
