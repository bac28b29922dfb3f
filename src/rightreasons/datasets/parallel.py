"""The same work on many items, several at a time, with a progress bar if it takes long."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from rightreasons.datasets.progress import progress

__all__ = ["in_parallel"]

CHUNK = 4096
Result = TypeVar("Result")


def in_parallel(
    action: Callable[[int], Result], num_items: int, *, workers: int, description: str
) -> list[Result]:
    """Call ``action`` with 0, 1, 2, … and give the results in this order.

    Args:
        action: Called from several threads; worth it for decoding and reading, which leave the
            interpreter free.
        num_items: How often.
        workers: How many threads; 0 for this one alone.
        description: For the progress bar.

    Example:
        >>> in_parallel(lambda item: item * item, 4, workers=2, description="squaring")
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
            for start in range(0, num_items, CHUNK):  # a million waiting items take a gigabyte
                for result in pool.map(action, range(start, min(start + CHUNK, num_items))):
                    results.append(result)
                    advance(1)
        finally:
            pool.shutdown(cancel_futures=True)
    return results
