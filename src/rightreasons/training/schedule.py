"""The order of samples in a training: updates, their batches, and each process's part of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Microbatch", "Schedule"]

BUCKET = 25
"""Batches whose texts are sorted by length together."""


class Microbatch(NamedTuple):
    """One process's part of a batch.

    Args:
        rows: Row numbers in the data set.
        share: Factor for the mean loss over ``rows``. With it, the average over processes of the
            sum over an update's batches is the mean over all samples of the update.
    """

    rows: Tensor
    share: float


class Schedule:
    """The order of samples in an epoch: a permutation by seed and epoch, cut into updates.

    A single sample left over joins the batch before it.

    Args:
        size: Number of samples in the data set.
        batch_size: Samples in a batch, over all processes.
        accumulate: Batches per update.
        seed: Random seed for the order.
        rank: Number of this process.
        world_size: Number of processes.
        lengths: Number of tokens of each text. Batches then hold texts of similar length, so that
            little is padded; None takes samples as they come.

    Example:
        >>> schedule = Schedule(size=10, batch_size=4, accumulate=1, seed=0, rank=0, world_size=1)
        >>> [len(update[0].rows) for update in schedule.updates(epoch=0)]
        [4, 4, 2]
    """

    def __init__(
        self,
        size: int,
        batch_size: int,
        accumulate: int,
        seed: int,
        rank: int,
        world_size: int,
        lengths: Tensor | None = None,
    ) -> None:
        self.size = size
        self.batch_size = batch_size
        self.accumulate = accumulate
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.lengths = lengths

    @property
    def num_updates(self) -> int:
        """Updates in an epoch."""
        return math.ceil(self.num_passes / self.accumulate)

    @property
    def num_passes(self) -> int:
        """Batches in an epoch."""
        return len(self._batch_sizes())

    def updates(self, epoch: int) -> list[list[Microbatch]]:
        """This process's part of every update of an epoch."""
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + epoch) % 2**63)
        order = torch.randperm(self.size, generator=generator)
        batches: Sequence[Tensor] = torch.split(order, self._batch_sizes())
        if self.lengths is not None:
            batches = self._by_length(batches, self.lengths.cpu(), generator)
        groups = [
            batches[first : first + self.accumulate]
            for first in range(0, len(batches), self.accumulate)
        ]
        return [[self._part(batch, sum(map(len, group))) for batch in group] for group in groups]

    def _by_length(
        self, batches: Sequence[Tensor], lengths: Tensor, generator: torch.Generator
    ) -> list[Tensor]:
        """Sort the samples of some batches by length among them; their order stays random."""
        sorted_batches: list[Tensor] = []
        for first in range(0, len(batches), BUCKET):
            some = batches[first : first + BUCKET]
            rows = torch.cat(list(some))
            parts = torch.split(rows[lengths[rows].argsort(stable=True)], [len(b) for b in some])
            sorted_batches += [parts[n] for n in torch.randperm(len(parts), generator=generator)]
        return sorted_batches

    def _batch_sizes(self) -> list[int]:
        whole, left_over = divmod(self.size, self.batch_size)
        sizes = [self.batch_size] * whole + ([left_over] if left_over else [])
        if left_over == 1 and whole:  # BatchNorm cannot normalise one sample by itself
            sizes[-2:] = [self.batch_size + 1]
        return sizes

    def _part(self, batch: Tensor, samples_in_update: int) -> Microbatch:
        rows = batch[self.rank :: self.world_size]
        if not len(rows):  # fewer samples than processes: join the collective, count nothing
            return Microbatch(batch[:1], 0.0)
        return Microbatch(rows, self.world_size * len(rows) / samples_in_update)
