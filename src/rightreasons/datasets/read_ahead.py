"""Batches prepared by worker processes while the model is busy with the one before."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import data as torch_data

from rightreasons.errors import RightReasonsError
from rightreasons.types import Batch

__all__ = ["read_ahead"]


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
