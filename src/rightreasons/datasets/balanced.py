"""Data of which each epoch has as many samples of every group or class."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

__all__ = ["Balanced"]


class Balanced(Dataset):
    """Data of which each epoch has as many samples of every group, or of every class.

    Without an epoch the data are unchanged. `at_epoch` draws as many samples as there are: those of
    a small group several times, each as often as the others, those of a large one in turn.

    Args:
        base: The data to draw from.
        by: ``"groups"`` or ``"classes"``.
        seed: Random seed for the draws.
        places: Indices in ``base`` that were drawn; None without an epoch.
    """

    def __init__(self, base: Dataset, by: str, *, seed: int, places: Tensor | None = None) -> None:
        self.base, self.by, self.seed, self.places = base, by, seed, places
        self.card = base.card
        if by == "groups" and base.groups is None:
            raise InvalidSettingError(
                f"Expected data with groups to balance them, but {base.card.name!r} has none. Use "
                "balance='classes'."
            )

    def __len__(self) -> int:
        return len(self.base)

    @override
    def take(self, rows: Tensor) -> Batch:
        return self.base.take(self._in_base(rows))

    @override
    def at_epoch(self, epoch: int) -> Dataset:
        kinds = self.base.groups if self.by == "groups" else self.base.labels
        assigned = np.full(0, 0) if kinds is None else kinds.numpy()
        stream = random_stream(self.seed, "balance", epoch)
        known = [number for number in np.unique(assigned) if number >= 0]
        each, more = divmod(len(self), len(known))
        places = []
        for place, number in enumerate(known):
            members = np.flatnonzero(assigned == number)
            wanted = each + (place < more)
            rounds = [stream.permutation(members) for _ in range(-(-wanted // len(members)))]
            places.append(np.concatenate(rounds)[:wanted])
        drawn = torch.from_numpy(np.concatenate(places))
        return Balanced(self.base.at_epoch(epoch), self.by, seed=self.seed, places=drawn)

    @override
    def batches(self, rows: Iterable[Tensor]) -> Iterator[Batch]:
        yield from self.base.batches([self._in_base(indices) for indices in rows])

    @property
    @override
    def labels(self) -> Tensor:
        return self._some(self.base.labels)

    @property
    @override
    def groups(self) -> Tensor | None:
        groups = self.base.groups
        return None if groups is None else self._some(groups)

    @property
    @override
    def has_masks(self) -> bool:
        return self.base.has_masks

    @override
    def digest(self) -> str:
        key = f"{self.base.digest()} balanced {self.by} {self.seed}"
        return hashlib.sha256(key.encode()).hexdigest()

    def _in_base(self, rows: Tensor) -> Tensor:
        return rows if self.places is None else self.places[rows]

    def _some(self, values: Tensor) -> Tensor:
        return values if self.places is None else values[self.places]
