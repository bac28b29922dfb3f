"""As many samples an epoch as asked for, however many there are: all of them get their turn."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.datasets import Dataset, Selected
from rightreasons.datasets.altered import Altered
from rightreasons.datasets.random_stream import random_stream
from rightreasons.types import Batch

__all__ = ["InTurn", "in_turn"]


def in_turn(data: Dataset, *, num: int, seed: int = 0) -> Dataset:
    """The data repeated to ``num`` samples, or, if they are more, so many in each epoch.

    Args:
        data: At least one sample.
        num: Samples an epoch.
        seed: Of the order in which more of them have their turn, see `InTurn`.

    Example:
        >>> from rightreasons.datasets import InMemory
        >>> data = InMemory(Batch(x=torch.arange(3.0)[:, None], y=torch.zeros(3).long()))
        >>> in_turn(data, num=4).take(torch.arange(4)).x.flatten()
        tensor([0., 1., 2., 0.])
        >>> parts = [in_turn(data, num=2).at_epoch(epoch) for epoch in (0, 1)]
        >>> sorted({float(x) for part in parts for x in part.take(torch.arange(2)).x})
        [0.0, 1.0, 2.0]
    """
    if len(data) <= num:
        return Selected(data, torch.arange(num) % len(data))
    return InTurn(data, num=num, seed=seed)


class InTurn(Altered):
    """More samples than an epoch has place for: each epoch goes on where the last one ended.

    They are in a random order, so that a training that is over before all had their turn has seen
    some of every kind, however they were sorted. Itself it is what the first epoch sees.

    Args:
        data: All samples.
        num: Samples an epoch, fewer than there are.
        seed: Of the order.
    """

    def __init__(self, data: Dataset, *, num: int, seed: int = 0) -> None:
        self.data = data
        self.num = num
        self._order = torch.from_numpy(random_stream(seed, "in turn").permutation(len(data)))
        super().__init__(self.at_epoch(0))

    def at_epoch(self, epoch: int) -> Dataset:
        """See `Dataset.at_epoch`."""
        turn = (epoch * self.num + torch.arange(self.num)) % len(self.data)
        return Selected(self.data.at_epoch(epoch), self._order[turn])

    def digest(self) -> str:
        """See `Dataset.digest`."""
        return Selected(self.data, self._order).digest()

    def altered(self, batch: Batch, places: Tensor) -> Batch:
        """See `Altered.altered`."""
        del places
        return batch
