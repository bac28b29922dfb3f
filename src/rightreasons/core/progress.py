"""Progress bars on the error stream: standard output stays free for results."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich import progress as rich_progress
from rich.console import Console

__all__ = ["live_bar", "progress", "track"]

PATIENCE_SECONDS = 2.0

Item = TypeVar("Item")


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
    task = bar.add_task(description, total=total)
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
    return rich_progress.track(items, description, total, console=Console(stderr=True))


def live_bar(*columns: rich_progress.ProgressColumn, show: bool | None) -> rich_progress.Progress:
    """A bar with description and count; it is used as a context.

    Args:
        columns: Further columns, to the right.
        show: Whether to show the bar; None does so on a terminal and in a notebook.
    """
    console = Console(stderr=True)
    return rich_progress.Progress(
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(bar_width=20),
        rich_progress.MofNCompleteColumn(),
        *columns,
        console=console,
        disable=not (console.is_terminal or console.is_jupyter if show is None else show),
    )
