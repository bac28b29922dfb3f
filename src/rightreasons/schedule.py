"""Which samples make up which update, in which process."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Micro", "Schedule"]


class Micro(NamedTuple):
    """One process's part of a batch.

    Args:
        rows: Positions in the data set.
        share: What the mean loss over ``rows`` must be multiplied with, so that the average over
            processes of the sum over an update's batches is the mean over all its samples.
    """

    rows: Tensor
    share: float


class Schedule:
    """The order of an epoch: a permutation by seed and epoch, cut into updates.

    A single sample left over joins the batch before it.

    Args:
        size: Of the data set.
        batch_size: Samples in a batch, over all processes.
        accumulate: Batches to an update.
        seed: Of the order.
        rank: This process.
        world_size: Number of processes.

    Example:
        >>> schedule = Schedule(size=10, batch_size=4, accumulate=1, seed=0, rank=0, world_size=1)
        >>> [len(update[0].rows) for update in schedule.updates(epoch=0)]
        [4, 4, 2]
    """

    def __init__(
        self, size: int, batch_size: int, accumulate: int, seed: int, rank: int, world_size: int
    ) -> None:
        self.size = size
        self.batch_size = batch_size
        self.accumulate = accumulate
        self.seed = seed
        self.rank = rank
        self.world_size = world_size

    @property
    def num_updates(self) -> int:
        """Updates in an epoch."""
        return math.ceil(self.num_passes / self.accumulate)

    @property
    def num_passes(self) -> int:
        """Batches in an epoch."""
        return len(self._batch_sizes())

    def updates(self, epoch: int) -> list[list[Micro]]:
        """This process's part of every update of an epoch."""
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + epoch) % 2**63)
        order = torch.randperm(self.size, generator=generator)
        batches = torch.split(order, self._batch_sizes())
        groups = [
            batches[first : first + self.accumulate]
            for first in range(0, len(batches), self.accumulate)
        ]
        return [[self._part(batch, sum(map(len, group))) for batch in group] for group in groups]

    def _batch_sizes(self) -> list[int]:
        whole, rest = divmod(self.size, self.batch_size)
        sizes = [self.batch_size] * whole + ([rest] if rest else [])
        if rest == 1 and whole:  # BatchNorm cannot normalise one sample by itself
            sizes[-2:] = [self.batch_size + 1]
        return sizes

    def _part(self, batch: Tensor, samples_in_update: int) -> Micro:
        own = batch[self.rank :: self.world_size]
        if not len(own):  # fewer samples than processes: take part in the collective, count nothing
            return Micro(batch[:1], 0.0)
        return Micro(own, self.world_size * len(own) / samples_in_update)
