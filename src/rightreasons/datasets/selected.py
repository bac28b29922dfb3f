"""Some of the samples of a data set, as a data set of their own."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from torch import Tensor

from rightreasons.datasets.dataset import Dataset, InMemory
from rightreasons.datasets.splitting import group_counts
from rightreasons.types import Batch

__all__ = ["Selected", "selected"]


class Selected(Dataset):
    """The samples at some places, numbered anew from 0; images may stay on disk.

    Args:
        base: Where they are from.
        places: ``(N,)`` positions in ``base``.
    """

    def __init__(self, base: Dataset, places: Tensor) -> None:
        self.base = base
        self.places = places
        counts = group_counts(self.groups, len(base.card.groups))
        self.card = replace(base.card, train_group_counts=counts)

    def __len__(self) -> int:
        return len(self.places)

    def take(self, rows: Tensor) -> Batch:
        """See `Dataset.take`."""
        return _numbered(self.base.take(self.places[rows]), rows)

    def at_epoch(self, epoch: int) -> Dataset:
        """See `Dataset.at_epoch`."""
        return Selected(self.base.at_epoch(epoch), self.places)

    def batches(self, rows: Iterable[Tensor]) -> Iterator[Batch]:
        """See `Dataset.batches`."""
        positions = list(rows)
        in_base = [self.places[some] for some in positions]
        for batch, some in zip(self.base.batches(in_base), positions, strict=True):
            yield _numbered(batch, some)

    @property
    def labels(self) -> Tensor:
        """See `Dataset.labels`."""
        return self.base.labels[self.places]

    @property
    def groups(self) -> Tensor | None:
        """See `Dataset.groups`."""
        groups = self.base.groups
        return None if groups is None else groups[self.places]

    @property
    def has_masks(self) -> bool:
        """See `Dataset.has_masks`."""
        return self.base.has_masks

    def digest(self) -> str:
        """See `Dataset.digest`."""
        sha = hashlib.sha256(self.base.digest().encode())
        sha.update(self.places.numpy().tobytes())
        return sha.hexdigest()


def selected(data: Dataset, places: Tensor) -> Dataset:
    """The samples at some places: copied if they are in memory, else taken when asked for."""
    some = Selected(data, places)
    if not isinstance(data, InMemory):
        return some
    return InMemory(data.batch[places], some.card)


def _numbered(batch: Batch, rows: Tensor) -> Batch:
    return Batch.trusted(
        x=batch.x,
        y=batch.y,
        mask=batch.mask,
        annotated=batch.annotated,
        group=batch.group,
        index=rows,
    )
