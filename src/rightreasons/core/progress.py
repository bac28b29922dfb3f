"""Work that takes long: progress bars, threads and worker processes.

Bars are on the error stream; standard output stays free for results.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from rich import progress as rich_progress
from rich.console import Console
from rich.markup import escape
from torch import Tensor
from torch.utils import data as torch_data

from rightreasons.errors import RightReasonsError
from rightreasons.types import Batch

__all__ = ["live_bar", "map_parallel", "progress", "read_ahead", "track"]

PATIENCE_SECONDS = 2.0
CHUNK = 4096

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def progress(description: str, *, total: int | None) -> Iterator[Callable[[int], None]]:
    """Give a function that reports how much more is done; show a bar if it takes long.

    Nothing is shown for quick work, nor where the error stream is no terminal. The bar
    disappears when the work is done.

    Args:
        description: What is going on, such as ``"decoding images"``.
        total: How much there is to do; None if that is unknown.

    Example:
        >>> with progress("counting", total=3) as advance:
        ...     for _ in range(3):
        ...         advance(1)
    """
    bar = rich_progress.Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(escape(description), total=total)
    started = time.monotonic()

    def advance(amount: int) -> None:
        bar.advance(task, amount)
        waited = time.monotonic() - started
        if waited > PATIENCE_SECONDS and bar.console.is_terminal and not bar.live.is_started:
            bar.start()

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()


def track(items: Iterable[Item], description: str, *, total: int) -> Iterable[Item]:
    """Go through ``items`` and show how many of them are done."""
    return rich_progress.track(items, escape(description), total, console=Console(stderr=True))


def live_bar(*columns: rich_progress.ProgressColumn, show: bool | None) -> rich_progress.Progress:
    """A bar with description and count; it is used as a context.

    Args:
        columns: Further columns, to the right.
        show: Whether to show the bar; None does so on a terminal and in a notebook.
    """
    console = Console(stderr=True)
    return rich_progress.Progress(
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(bar_width=20),
        rich_progress.MofNCompleteColumn(),
        *columns,
        console=console,
        disable=not (console.is_terminal or console.is_jupyter if show is None else show),
    )


def map_parallel(
    action: Callable[[int], Result], num_items: int, *, workers: int, description: str
) -> list[Result]:
    """Call ``action`` with 0, 1, 2, … and return the results in this order.

    Args:
        action: Function to call from several threads. This pays for decoding and reading, which
            release the interpreter's lock.
        num_items: Number of calls.
        workers: Number of threads; 0 to use the current thread alone.
        description: Label of the progress bar.

    Example:
        >>> map_parallel(lambda item: item * item, 4, workers=2, description="squaring")
        [0, 1, 4, 9]
    """
    results = []
    with progress(description, total=num_items) as advance:
        if not workers:
            for item in range(num_items):
                results.append(action(item))
                advance(1)
            return results
        pool = ThreadPoolExecutor(max_workers=workers)
        try:
            for start in range(0, num_items, CHUNK):  # a million queued calls take a gigabyte
                for result in pool.map(action, range(start, min(start + CHUNK, num_items))):
                    results.append(result)
                    advance(1)
        finally:
            pool.shutdown(cancel_futures=True)
    return results


def read_ahead(
    take: Callable[[Tensor], Batch], rows: Iterable[Tensor], *, workers: int
) -> Generator[Batch, None, None]:
    """Yield ``take(indices)`` for each tensor of indices, in order.

    The workers end when the iterator is exhausted or closed. The global random state does not
    change, so that training draws the same numbers for data on disk and in memory.

    Args:
        take: Function from indices to a batch. It is sent to the workers and must give the same
            batch in every process.
        rows: One tensor of indices for each batch.
        workers: Number of processes; 0 to read in the current process when a batch is needed.
    """
    if not workers:
        for indices in rows:
            yield take(indices)
        return
    loader = torch_data.DataLoader(
        _Batches(take, list(rows)),
        batch_size=None,
        num_workers=workers,
        collate_fn=_identity,
        generator=torch.Generator(),  # else the loader draws from the global one
    )
    for batch in loader:
        if isinstance(batch, RightReasonsError):
            raise batch
        yield batch


class _Batches(torch_data.Dataset[Batch | RightReasonsError]):
    """The batches as items of a torch data set, for its loader."""

    def __init__(self, take: Callable[[Tensor], Batch], rows: list[Tensor]) -> None:
        self.take = take
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Batch | RightReasonsError:
        try:
            return self.take(self.rows[number])
        except (
            RightReasonsError
        ) as error:  # an error raised in a worker would lose its type and gain a long traceback
            return error


def _identity(batch: Any) -> Any:
    return batch
