"""A progress bar for what takes longer than a few seconds, on the error stream."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

__all__ = ["progress"]

PATIENCE_SECONDS = 2.0


@contextmanager
def progress(description: str, *, total: int | None) -> Iterator[Callable[[int], None]]:
    """Give a function that reports how much more is done; show a bar if it takes long.

    Nothing is shown for what is quick or where nobody watches (the error stream is no terminal),
    and the bar goes when the work is done: standard output stays free for results.

    Args:
        description: What is going on, such as ``"decoding images"``.
        total: How much there is to do; None if nobody knows.

    Example:
        >>> with progress("counting", total=3) as advance:
        ...     for _ in range(3):
        ...         advance(1)
    """
    bar = Progress(console=Console(stderr=True), transient=True)
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
