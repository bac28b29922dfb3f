"""What a data set is: rows that can be taken as a `Batch`, and a card that says what they are."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from torch import Tensor
from typing_extensions import override

from rightreasons.errors import InvalidBatchError
from rightreasons.types import Batch

__all__ = ["Card", "Dataset", "InMemory", "Splits", "TransformedDataset"]


@dataclass(frozen=True)
class Card:
    """What a reader must know of a data set before trusting a number measured on it.

    Args:
        name: As in the registry.
        description: One sentence.
        source: Where the samples come from.
        licence: Under what terms.
        shortcut: What must not matter, and how it tells the label in training.
        classes: Names, in the order of the labels.
        groups: Names, in the order of the group numbers; empty if there are none.
        shape: Of one sample, ``(C, H, W)`` for images.
        valid_range: Smallest and largest value a feature may take.
        train_group_counts: How many training samples each group has.
    """

    name: str = "data"
    description: str = ""
    source: str = "the user's own"
    licence: str = "unknown"
    shortcut: str = "unknown"
    classes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    valid_range: tuple[float, float] = (0.0, 1.0)
    train_group_counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        taken = sorted({"average", "weighted", "worst"} & set(self.groups))
        if taken:
            raise InvalidBatchError(
                f"Expected group names other than those of GroupAccuracy's own values, but got "
                f"{', '.join(taken)}. Rename the group."
            )


class Dataset(ABC):
    """Rows that can be taken as a batch.

    A data set is `take`, its length, its labels and a card; everything else has a default.
    """

    card: Card

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: Tensor) -> Batch:
        """The samples at ``rows``, a 1-d tensor of positions, with ``index = rows``."""

    @property
    @abstractmethod
    def labels(self) -> Tensor:
        """All labels ``(N,)``, without reading the inputs."""

    @property
    @abstractmethod
    def groups(self) -> Tensor | None:
        """All group numbers ``(N,)`` or None, without reading the inputs."""

    @property
    @abstractmethod
    def has_masks(self) -> bool:
        """Whether batches carry masks."""

    @abstractmethod
    def digest(self) -> str:
        """A SHA-256 that changes whenever a sample, label, mask or group does."""

    def at_epoch(self, epoch: int) -> Dataset:
        """The data as training sees them in this epoch; itself unless they are drawn anew."""
        del epoch
        return self

    def batches(self, rows: Iterable[Tensor]) -> Iterator[Batch]:
        """One batch for each tensor of positions; subclasses may read ahead."""
        for positions in rows:
            yield self.take(positions)


class InMemory(Dataset):
    """A data set whose tensors are held in memory and batched by slicing them.

    Args:
        batch: All samples; checked once here, trusted in every slice.
        card: What they are; class and group names are counted off the data if it has none.

    Example:
        >>> import torch
        >>> data = InMemory(Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1])))
        >>> len(data), data.card.classes, data.take(torch.tensor([2])).index
        (4, ('0', '1'), tensor([2]))
    """

    def __init__(self, batch: Batch, card: Card | None = None) -> None:
        card = card or Card()
        if not len(batch):
            raise InvalidBatchError("Expected at least one sample, but got none.")
        if not card.classes:
            card = replace(card, classes=tuple(str(k) for k in range(int(batch.y.max()) + 1)))
        if int(batch.y.max()) >= len(card.classes):
            raise InvalidBatchError(
                f"Expected labels from 0 to {len(card.classes) - 1}, for the {len(card.classes)} "
                f"classes of {card.name!r}, but got {int(batch.y.max())}."
            )
        if batch.group is not None and not card.groups and int(batch.group.max()) >= 0:
            card = replace(card, groups=tuple(str(g) for g in range(int(batch.group.max()) + 1)))
        self.batch = batch
        self.card = replace(card, shape=tuple(batch.x.shape[1:]))

    def __len__(self) -> int:
        return len(self.batch)

    def take(self, rows: Tensor) -> Batch:
        """See `Dataset.take`."""
        return self.batch[rows].with_(index=rows)

    @property
    def labels(self) -> Tensor:
        """See `Dataset.labels`."""
        return self.batch.y

    @property
    def groups(self) -> Tensor | None:
        """See `Dataset.groups`."""
        return self.batch.group

    @property
    def has_masks(self) -> bool:
        """See `Dataset.has_masks`."""
        return self.batch.mask is not None

    def digest(self) -> str:
        """See `Dataset.digest`."""
        sha = hashlib.sha256()
        for entry in fields(Batch):
            part = getattr(self.batch, entry.name)
            if part is not None and entry.name != "index":
                sha.update(f"{entry.name} {part.dtype} {tuple(part.shape)}".encode())
                sha.update(part.detach().cpu().contiguous().numpy())
        return sha.hexdigest()


class TransformedDataset(Dataset):
    """Base class: the samples of another data set, each changed when a batch is taken.

    Labels and groups stay the same.

    Args:
        base: The data to change; images may stay on disk.
    """

    def __init__(self, base: Dataset) -> None:
        self.base = base
        self.card = base.card

    @abstractmethod
    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        """Change the samples at ``indices``; the result must not depend on the other samples."""

    def __len__(self) -> int:
        return len(self.base)

    @override
    def take(self, rows: Tensor) -> Batch:
        return self.transform(self.base.take(rows), rows)

    @override
    def batches(self, rows: Iterable[Tensor]) -> Iterator[Batch]:
        listed = list(rows)
        for batch, indices in zip(self.base.batches(listed), listed, strict=True):
            yield self.transform(batch, indices)

    @property
    @override
    def labels(self) -> Tensor:
        return self.base.labels

    @property
    @override
    def groups(self) -> Tensor | None:
        return self.base.groups

    @property
    @override
    def has_masks(self) -> bool:
        return self.base.has_masks


@dataclass(frozen=True)
class Splits:
    """The parts of a data set: to fit, to choose settings, and to judge.

    Args:
        train: To fit.
        val: To choose settings; carries the shortcut wherever the training data do. None if
            everything was given to training.
        test: To judge, once.
        more_tests: Further sets to judge by, such as the same images without the shortcut; runs
            measure each under its name.
    """

    train: Dataset
    val: Dataset | None
    test: Dataset
    more_tests: Mapping[str, Dataset] = field(default_factory=dict)

    def __post_init__(self) -> None:
        taken = sorted({"test", "validation"} & set(self.more_tests))
        if taken:
            raise InvalidBatchError(
                f"Expected names of `more_tests` other than those of the parts there always are, "
                f"but got {', '.join(taken)}. Rename the set."
            )

    @property
    def card(self) -> Card:
        """The card all parts share."""
        return self.train.card

    def digest(self) -> str:
        """A SHA-256 over all parts."""
        always = (self.train, self.val, self.test)
        parts = [part.digest() for part in always if part is not None]
        for name, part in self.more_tests.items():
            parts += [name, part.digest()]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()
