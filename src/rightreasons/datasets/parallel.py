"""Work in several threads: a function over many items, and batches read ahead."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils import data as torch_data

from rightreasons.core.progress import progress
from rightreasons.errors import RightReasonsError
from rightreasons.types import Batch

__all__ = ["map_parallel", "read_ahead"]

CHUNK = 4096
Result = TypeVar("Result")


def map_parallel(
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
            for start in range(0, num_items, CHUNK):  # a million waiting items take a gigabyte
                for result in pool.map(action, range(start, min(start + CHUNK, num_items))):
                    results.append(result)
                    advance(1)
        finally:
            pool.shutdown(cancel_futures=True)
    return results


def read_ahead(
    take: Callable[[Tensor], Batch], rows: Iterable[Tensor], *, workers: int
) -> Iterator[Batch]:
    """Yield ``take(positions)`` for each tensor of positions, in order.

    The workers end when the iterator is exhausted or closed. The global random state is left
    alone, so that training on streamed data and on data in memory draws the same numbers.

    Args:
        take: Must give the same batch in every process; it is sent to the workers.
        rows: One tensor of positions for each batch.
        workers: How many processes; 0 reads in this one, just in time.
    """
    if not workers:
        for positions in rows:
            yield take(positions)
        return
    loader = torch_data.DataLoader(
        _Batches(take, list(rows)),
        batch_size=None,
        num_workers=workers,
        collate_fn=_unchanged,
        generator=torch.Generator(),  # else the loader draws from the global one
    )
    for batch in loader:
        if isinstance(batch, RightReasonsError):
            raise batch
        yield batch


class _Batches(torch_data.Dataset[Batch | RightReasonsError]):
    def __init__(self, take: Callable[[Tensor], Batch], rows: list[Tensor]) -> None:
        self.take = take
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Batch | RightReasonsError:
        try:
            return self.take(self.rows[number])
        except RightReasonsError as error:  # raised by a loader, its message drowns in a traceback
            return error


def _unchanged(batch: Any) -> Any:
    return batch
