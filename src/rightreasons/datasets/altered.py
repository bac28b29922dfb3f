"""A data set seen through a change of its samples."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator

from torch import Tensor

from rightreasons.datasets.dataset import Dataset
from rightreasons.types import Batch

__all__ = ["Altered"]


class Altered(Dataset):
    """The same samples with the same labels and groups, changed when a batch is taken.

    Args:
        base: The data; they may stay on disk.
    """

    def __init__(self, base: Dataset) -> None:
        self.base = base
        self.card = base.card

    @abstractmethod
    def altered(self, batch: Batch, places: Tensor) -> Batch:
        """What becomes of the samples at ``places``; must not depend on who comes together."""

    def __len__(self) -> int:
        return len(self.base)

    def take(self, rows: Tensor) -> Batch:
        """See `Dataset.take`."""
        return self.altered(self.base.take(rows), rows)

    def batches(self, rows: Iterable[Tensor]) -> Iterator[Batch]:
        """See `Dataset.batches`."""
        positions = list(rows)
        for batch, places in zip(self.base.batches(positions), positions, strict=True):
            yield self.altered(batch, places)

    @property
    def labels(self) -> Tensor:
        """See `Dataset.labels`."""
        return self.base.labels

    @property
    def groups(self) -> Tensor | None:
        """See `Dataset.groups`."""
        return self.base.groups

    @property
    def has_masks(self) -> bool:
        """See `Dataset.has_masks`."""
        return self.base.has_masks
