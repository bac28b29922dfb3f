"""A data set with other masks: what each mask becomes depends on its place alone."""

import hashlib
from collections.abc import Callable

import torch
from torch import Tensor

from rightreasons.datasets.altered import Altered
from rightreasons.datasets.dataset import Dataset, InMemory
from rightreasons.types import Batch

__all__ = ["Change", "Remasked", "remasked"]

Change = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""From masks, ``annotated`` and the places of the samples to other masks and ``annotated``."""

CHUNK = 4096


class Remasked(Altered):
    """Masks changed when a batch is taken, so that images may stay on disk.

    Args:
        base: Data with masks.
        change: Must not depend on which samples come together.
        key: What the change is, for the digest.
    """

    def __init__(self, base: Dataset, change: Change, *, key: str) -> None:
        super().__init__(base)
        self.change = change
        self.key = key

    def at_epoch(self, epoch: int) -> Dataset:
        """See `Dataset.at_epoch`."""
        return Remasked(self.base.at_epoch(epoch), self.change, key=self.key)

    def digest(self) -> str:
        """See `Dataset.digest`."""
        return hashlib.sha256(f"{self.base.digest()} {self.key}".encode()).hexdigest()

    def altered(self, batch: Batch, places: Tensor) -> Batch:
        """See `Altered.altered`."""
        if batch.mask is None or batch.annotated is None:
            return batch
        mask, annotated = self.change(batch.mask, batch.annotated, places)
        return Batch.trusted(
            x=batch.x,
            y=batch.y,
            mask=mask,
            annotated=annotated,
            group=batch.group,
            index=batch.index,
        )


def remasked(data: Dataset, change: Change, *, key: str) -> Dataset:
    """Change the masks: at once if the data are in memory, else when batches are taken."""
    if not isinstance(data, InMemory) or data.batch.mask is None or data.batch.annotated is None:
        return Remasked(data, change, key=key)
    changed = [
        change(data.batch.mask[places], data.batch.annotated[places], places)
        for start in range(0, len(data), CHUNK)
        for places in [torch.arange(start, min(start + CHUNK, len(data)))]
    ]
    masks, annotated = zip(*changed, strict=True)
    return InMemory(
        data.batch.replace(mask=torch.cat(masks), annotated=torch.cat(annotated)), data.card
    )
