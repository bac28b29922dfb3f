"""Run a suite cell by cell, here or on a backend; any stop can be resumed.

Several processes share the cells. With a backend, this process is the driver of its workers.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.progress import Progress, TaskID, TimeElapsedColumn

from rightreasons.benchmark.backends import Backend, open_backend
from rightreasons.benchmark.cell import (
    Cell,
    Job,
    Outcome,
    config_key,
    row_address,
    train_cell,
    write_files,
)
from rightreasons.benchmark.plan import Find, Plan, list_lines, plan
from rightreasons.benchmark.registry import find_suite
from rightreasons.benchmark.store import DataCache, Row, Store
from rightreasons.benchmark.suite import Suite
from rightreasons.core.progress import live_bar
from rightreasons.errors import InvalidSettingError
from rightreasons.run.config import Config

__all__ = ["run_suite"]

logger = logging.getLogger("rightreasons")

WAIT_SECONDS = 0.5
MOST_LINES = 12
"""Most running cells with a line of their own in the progress."""


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
    backend: str | None = None,
    workers: int | None = None,
    address: str | None = None,
    cpus: int | None = None,
    gpus: float = 0.0,
    on_failure: Callable[[str, str], None] | None = None,
) -> list[Row]:
    """Run the unfinished cells of a suite, or of a part of it, and return all its rows.

    Several processes may run at once with the same ``out``: they share the cells, even when they
    run different parts. Set ``OMP_NUM_THREADS`` to the number of cores divided by the number of
    processes. A process may be killed at any time: finished cells are kept, and an unfinished
    cell resumes from its checkpoint.

    With a backend, this process starts workers, shares the cores among them, and alone writes
    rows. A cell whose worker or node died runs again. A cell that raises an error is
    told at the end, and the others run.

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
        backend: ``"process"`` for processes of this machine, ``"ray"`` for the nodes of a Ray
            cluster; None runs cells in this process, or in ``workers`` processes.
        workers: Most cells at once; None is as many as there are cores, or room on the nodes.
        address: Address of a Ray cluster, ``"auto"`` for one that this machine belongs to. None
            is the variable ``RAY_ADDRESS``, or else a cluster that is started on this machine.
        cpus: Cores, and threads, of each cell; None shares the cores of this machine, and is 1
            on Ray.
        gpus: GPUs of each cell, on Ray. A fraction shares one.
        on_failure: Called at the end with the name of each failed cell and the reason; None logs
            warnings. A failed cell has no row: the same command tries it again.

    Raises:
        KeyboardInterrupt: After Ctrl-C; the message says how to resume.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise InvalidSettingError(
            "Expected a process of its own for a suite, but it was started by torchrun. Start "
            "`rightreasons bench run` as often as you like with the same --out: the processes "
            "share the cells."
        )
    names = {"variants": variants, "methods": methods, "seeds": seeds}
    part = _Part(find_suite(suite), budget, names)
    store = Store(out)
    sweep = _Sweep(part, store, DataCache(data_dir, store.data), accelerator)
    place: dict[str, Any] = {"workers": workers, "address": address, "cpus": cpus, "gpus": gpus}
    if backend is None and any(place.values()):
        backend = "ray" if address or gpus else "process"
    with live_bar(TimeElapsedColumn(), show=progress) as bar:
        try:
            if backend is None:
                return sweep.run(bar)
            return _Driver(sweep, open_backend(backend, **place), bar).run(on_failure or _warn)
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
    names: dict[str, Any]

    def __post_init__(self) -> None:
        for line in list_lines(self.suite, self.budget, **self.names):
            for cell in line.possible_cells():
                cell.config.build_objective()
                cell.config.build_strategy()

    def plan(self, find: Find) -> Plan:
        return plan(self.suite, self.budget, find, **self.names)


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
            finished, missing = self.look(bar, task)
            if not missing:
                return finished
            for cell in missing:
                bar.update(task, description=cell.name)
                if self._run_if_free(cell):
                    break
            else:
                bar.update(task, description="waiting for cells other processes are at")
                time.sleep(WAIT_SECONDS)

    def look(self, bar: Progress, task: TaskID) -> tuple[list[Row], list[Cell]]:
        """The rows of finished cells, and the cells that can run now."""
        find = self._finder()
        planned = self.part.plan(find)
        finished = [row for row in (find(cell.config) for cell in planned.cells) if row]
        missing = [cell for cell in planned.cells if find(cell.config) is None]
        num_cells = len(planned.cells) + planned.num_unknown
        self.status = f"{len(finished)} of {num_cells} cells are finished"
        bar.update(task, total=num_cells, completed=len(finished))
        return finished, missing

    def _finder(self) -> Find:
        rows = self.store.rows()
        begun = {address.partition("-")[0] for address in rows}

        def find(config: Config) -> Row | None:
            if config_key(config) not in begun:
                return None  # the data need not be loaded for their hash
            return rows.get(self.address(config))

        return find

    def address(self, config: Config) -> str:
        """The address of a run."""
        return row_address(config, self.data.digest(config))

    def place(self, config: Config) -> Config:
        """The same run on this machine."""
        return replace(config, data_dir=self.data.data_dir, accelerator=self.accelerator)

    def _run_if_free(self, cell: Cell) -> bool:
        """Run a cell unless another process runs it; returns False if one does."""
        address = self.address(cell.config)
        with self.store.claim(address) as claimed:
            if claimed and address not in self.store.rows():
                data = self.data.load(cell.config)
                if self.address(cell.config) == address:  # else the data changed meanwhile
                    logger.info("%s; next: %s", self.status, cell.name)
                    folder = self.store.run_folder(address)
                    results, failure = train_cell(self.place(cell.config), folder, data)
                    digest = self.data.digest(cell.config)
                    self.store.keep(address, cell.config, digest, results, failure)
        return claimed


@dataclass
class _Flight:
    """A cell that a worker runs; the claim holds it against other processes."""

    cell: Cell
    claim: ExitStack
    line: TaskID | None


class _Driver:
    """Sends the cells of a sweep to the workers of a backend, and writes what comes back."""

    def __init__(self, sweep: _Sweep, backend: Backend, bar: Progress) -> None:
        self.sweep, self.backend, self.bar = sweep, backend, bar
        self.flights: dict[str, _Flight] = {}
        self.failed: dict[str, tuple[str, str]] = {}
        self.marker = sweep.store.marker()

    def run(self, on_failure: Callable[[str, str], None]) -> list[Row]:
        """Run cells until all are finished, here or elsewhere, or have failed."""
        task = self.bar.add_task("cells", total=None)
        try:
            self.marker.touch()
            while True:
                finished, missing = self.sweep.look(self.bar, task)
                waiting = self._send_all(missing)
                if not waiting and not self.flights:
                    self.bar.update(task, description=f"{len(finished)} cells finished")
                    break
                self.bar.update(task, description=f"cells, {len(self.flights)} running")
                self._wait(waiting)
        finally:
            self.backend.close()
            for flight in self.flights.values():
                flight.claim.close()
            self.marker.unlink(missing_ok=True)
        for name, reason in self.failed.values():
            on_failure(name, reason)
        return finished

    def _send_all(self, missing: Collection[Cell]) -> list[Cell]:
        """Send cells while there is room; gives those that wait."""
        begun = {*self.failed, *(config_key(one.cell.config) for one in self.flights.values())}
        waiting = [cell for cell in missing if config_key(cell.config) not in begun]
        room = self.backend.capacity() - len(self.flights)
        for cell in list(waiting):
            if room < 1:
                break
            if self._send(cell):
                waiting.remove(cell)
                room -= 1
        return waiting

    def _send(self, cell: Cell) -> bool:
        """Send a cell unless another process runs it, or has just finished it."""
        sweep = self.sweep
        address = sweep.address(cell.config)
        with ExitStack() as stack:
            claimed = stack.enter_context(sweep.store.claim(address))
            if not claimed or address in sweep.store.rows():
                return False
            self.backend.submit(
                Job(
                    address=address,
                    config=sweep.place(cell.config).with_whole_paths(),
                    data_sha256=sweep.data.digest(cell.config),
                    folder=sweep.store.run_folder(address).resolve(),
                    marker=self.marker.resolve(),
                )
            )
            shown = len(self.flights) < MOST_LINES
            line = self.bar.add_task(cell.name, total=cell.config.epochs) if shown else None
            self.flights[address] = _Flight(cell, stack.pop_all(), line)
        logger.info("%s; sent: %s", sweep.status, cell.name)
        return True

    def _wait(self, waiting: Collection[Cell]) -> None:
        """Wait for a cell; meanwhile hash the data of the next one, so that no worker waits."""
        for cell in waiting:
            self.sweep.data.digest(cell.config)
            break
        self.sweep.data.forget()  # workers load them
        if not self.flights:
            time.sleep(WAIT_SECONDS)  # other processes are at all cells
            return
        for address, outcome in self.backend.wait(WAIT_SECONDS):
            flight = self.flights.pop(address)
            with flight.claim:
                self._take(flight.cell, address, outcome)
            if flight.line is not None:
                self.bar.remove_task(flight.line)
        for address, flight in self.flights.items():
            if flight.line is not None:
                folder = self.sweep.store.run_folder(address)
                self.bar.update(flight.line, completed=_count_epochs(folder))

    def _take(self, cell: Cell, address: str, outcome: Outcome) -> None:
        if outcome.refused:
            raise InvalidSettingError(outcome.refused)
        if outcome.other_data:
            self._compare_data(cell.config, outcome)
        elif outcome.error:
            self.failed[config_key(cell.config)] = cell.name, outcome.error
        else:
            if outcome.files is not None:
                write_files(self.sweep.store.run_folder(address), outcome.files)
            digest = self.sweep.data.digest(cell.config)
            self.sweep.store.keep(address, cell.config, digest, outcome.results, outcome.failure)

    def _compare_data(self, config: Config, outcome: Outcome) -> None:
        """Load the data again; raise unless they changed meanwhile, here as there."""
        self.sweep.data.load(config)
        digest = self.sweep.data.digest(config)
        if digest != outcome.other_data:
            raise InvalidSettingError(
                f"Expected the driver's data for {config.data} on every node, SHA-256 "
                f"{digest[:12]}, but {outcome.where} has {outcome.other_data[:12]} in "
                f"{self.sweep.data.data_dir}. Copy the files there and start again: finished cells "
                "are kept."
            )


def _count_epochs(folder: Path) -> int:
    with suppress(OSError):
        return sum(path.read_bytes().count(b"\n") for path in folder.rglob("log.jsonl"))
    return 0


def _warn(name: str, reason: str) -> None:
    logger.warning("Failed: %s: %s", name, reason)
