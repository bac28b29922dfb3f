"""The data set interface, data sets in memory, the splits and their card."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.checks import check_integer
from rightreasons.errors import InvalidBatchError
from rightreasons.types import Batch

__all__ = [
    "Card",
    "Column",
    "Dataset",
    "Files",
    "InMemory",
    "Splits",
    "TextCard",
    "TransformedDataset",
    "as_dataset",
    "group_counts",
    "spread_over_classes",
]


class _UsualRange(tuple[float, float]):
    """A range that nobody stated. The type says so, also after copying and pickling."""

    __slots__ = ()


_USUAL_RANGE = _UsualRange((0.0, 1.0))


@dataclass(frozen=True)
class TextCard:
    """The tokens of a text data set.

    Args:
        vocabulary: Number of token ids.
        tokenizer: Name of the tokenizer, as the data setting takes it.
        padding: Id of the padding.
        mask_token: Id of the token that stands for a hidden word; None if there is none.
        special: Ids that are no words: padding, begin, end.
        substitutes: Ids of the word list, which masked tokens may be replaced by.
        sha256: Hash of all texts.
    """

    vocabulary: int
    tokenizer: str = "words"
    padding: int = 0
    mask_token: int | None = None
    special: tuple[int, ...] = ()
    substitutes: tuple[int, ...] = ()
    sha256: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table, and the features it became.

    Args:
        name: Name in the table.
        first: Number of its first feature.
        values: The values of a category, one feature each; empty for numbers, one feature.
        mean: What was subtracted from numbers.
        deviation: What they were divided by.
        masked: Whether the model must not look at it.
    """

    name: str
    first: int
    values: tuple[str, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0
    masked: bool = False

    @property
    def features(self) -> slice:
        """The features of the column."""
        return slice(self.first, self.first + max(1, len(self.values)))


@dataclass(frozen=True)
class Card:
    """The description of a data set: origin, licence, shortcut, names and shape.

    Args:
        name: The name in the registry.
        description: One sentence.
        source: Origin of the samples.
        licence: Terms of use.
        shortcut: What must not matter, and how it tells the label in training.
        classes: Class names, in the order of the labels.
        groups: Group names, in the order of the group numbers; empty if there are no groups.
        shape: Shape of one sample, ``(C, H, W)`` for images.
        valid_range: Smallest and largest value of a feature. `states_range` tells whether it was
            given.
        train_group_counts: Number of training samples of each group.
        text: The tokens, if samples are texts.
        columns: The columns, if samples are rows of a table.
    """

    name: str = "data"
    description: str = ""
    source: str = "the user's own"
    licence: str = "unknown"
    shortcut: str = "unknown"
    classes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    valid_range: tuple[float, float] = _USUAL_RANGE
    train_group_counts: tuple[int, ...] = ()
    text: TextCard | None = None
    columns: tuple[Column, ...] = ()

    @property
    def feature_range(self) -> tuple[float, float] | None:
        """The valid range of the features that get explained; embeddings of texts have none."""
        return None if self.text is not None else self.valid_range

    @property
    def states_range(self) -> bool:
        """Whether the valid range is known, and not only what is usual.

        Example:
            >>> Card().states_range, Card(valid_range=(-1.0, 1.0)).states_range
            (False, True)
        """
        return not isinstance(self.valid_range, _UsualRange) or self.source != Card.source

    def __post_init__(self) -> None:
        taken = sorted({"average", "weighted", "worst", ""} & set(self.groups))
        if taken:
            raise InvalidBatchError(
                f"Expected group names other than those of GroupAccuracy's own values, but got "
                f"{', '.join(map(repr, taken))}. Rename the group."
            )
        names = [*self.groups, "average", "weighted", "worst"]
        values = [f"{name}{end}" for name in names for end in ("", "/n", "/low", "/high")]
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise InvalidBatchError(
                "Expected group names of which each has values of its own, but got two values "
                f"called {twice[0]!r}. Rename the group."
            )


class Dataset(ABC):
    """Base class of data sets: samples that are taken by index, and a card."""

    card: Card
    vocabulary: Sequence[str] | None = None
    """The word of each token id, for data of texts."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: Tensor) -> Batch:
        """Take the samples at ``rows``, a 1-d tensor of indices; ``index`` is ``rows``."""

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
        """A SHA-256 of all samples, labels, masks and groups."""

    @property
    def lengths(self) -> Tensor | None:
        """The number of tokens of each text ``(N,)``; None for data without padding."""
        return None

    def at_epoch(self, epoch: int) -> Dataset:
        """The training data of an epoch; the data set itself unless samples change by epoch."""
        del epoch
        return self

    def batches(self, rows: Iterable[Tensor]) -> Iterator[Batch]:
        """Yield one batch for each tensor of indices; subclasses may read ahead."""
        for indices in rows:
            yield self.take(indices)


@dataclass(frozen=True)
class Files:
    """Where samples were read from.

    Args:
        root: Folder that names are relative to.
        names: The file of each sample.
    """

    root: Path
    names: tuple[str, ...]


class InMemory(Dataset):
    """A data set in memory.

    Args:
        batch: All samples.
        card: Description of the data. Missing class and group names become numbers.
        files: The file of each sample, if the samples were read from files.
        vocabulary: The word of each token id, if the samples are texts.

    Example:
        >>> import torch
        >>> data = InMemory(Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1])))
        >>> len(data), data.card.classes, data.take(torch.tensor([2])).index
        (4, ('0', '1'), tensor([2]))
    """

    def __init__(
        self,
        batch: Batch,
        card: Card | None = None,
        *,
        files: Files | None = None,
        vocabulary: Sequence[str] | None = None,
    ) -> None:
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
        self.files = files
        self.vocabulary = vocabulary
        self.card = replace(card, shape=tuple(batch.x.shape[1:]))

    def __len__(self) -> int:
        return len(self.batch)

    @override
    def take(self, rows: Tensor) -> Batch:
        return self.batch[rows].trimmed().with_(index=rows)

    @property
    @override
    def lengths(self) -> Tensor | None:
        if self.batch.inputs is None or not self.batch.has_padding:
            return None
        return self.batch.inputs["attention_mask"].sum(dim=1)

    @property
    @override
    def labels(self) -> Tensor:
        return self.batch.y

    @property
    @override
    def groups(self) -> Tensor | None:
        return self.batch.group

    @property
    @override
    def has_masks(self) -> bool:
        return self.batch.mask is not None

    @override
    def digest(self) -> str:
        sha = hashlib.sha256()
        named = {column.name: getattr(self.batch, column.name) for column in fields(Batch)}
        named |= named.pop("inputs") or {}
        for name, part in named.items():
            if part is not None and name != "index":
                sha.update(f"{name} {part.dtype} {tuple(part.shape)}".encode())
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
        self.vocabulary = base.vocabulary

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
    def lengths(self) -> Tensor | None:
        return self.base.lengths

    @property
    @override
    def has_masks(self) -> bool:
        return self.base.has_masks


@dataclass(frozen=True)
class Splits:
    """The training, validation and test data of a data set.

    Args:
        train: Data to fit a model on.
        val: Data to choose settings on; it has the shortcut wherever the training data have it.
            None if all samples are for training.
        test: Data for the final evaluation.
        more_tests: More test sets by name, for example the same images without the shortcut. A
            run evaluates each of them.
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
        """The card of all parts."""
        return self.train.card

    def digest(self) -> str:
        """A SHA-256 over all parts."""
        parts = (self.train, self.val, self.test)
        digests = [part.digest() for part in parts if part is not None]
        for name, part in self.more_tests.items():
            digests += [name, part.digest()]
        return hashlib.sha256(" ".join(digests).encode()).hexdigest()


def as_dataset(data: object, *, workers: int = 0, seed: int = 0) -> Dataset:
    """Make a data set from a batch, from arrays or from a data set of another library.

    - A `Dataset` is returned as it is.
    - A `Batch` is kept in memory; so is a torch `TensorDataset` of x, y[, mask[, group]].
      So are arrays or tensors ``(x, y[, mask[, group]])``.
    - A torch `DataLoader` stands for its data set. One with a sampler or a ``collate_fn`` of its
      own is refused.
    - The items of a map-style torch data set, or of Hugging Face's `datasets`, are tuples
      ``(x, y[, mask[, group]])`` or dicts. The keys of a dict are ``x``, ``input``, ``image``,
      ``img`` or ``pixel_values``, then ``y``, ``label`` or ``labels``, and optionally ``mask`` and
      ``group``; other keys are ignored. A Pillow image of 8 bits is divided by 255. A mask of None
      means not annotated; a group of None or -1 means unknown. Batches are collated when they are
      taken. Labels and groups are read once, from all items, when they are first needed.

    Args:
        data: One of these.
        workers: Number of processes that prepare the batches of a torch data set.
        seed: Random seed for what the items of a torch data set draw from torch, NumPy or
            `random`. A draw depends on the seed, the epoch and the sample, not on workers or
            batches.

    Raises:
        InvalidBatchError: ``data`` is something else; the message says what to pass.

    Example:
        >>> pairs = torch.utils.data.TensorDataset(torch.rand(4, 3), torch.tensor([0, 1, 1, 0]))
        >>> as_dataset(pairs).labels
        tensor([0, 1, 1, 0])
    """
    check_integer("workers", workers, low=0)
    if isinstance(data, Dataset):
        return data
    if isinstance(data, Batch):
        return InMemory(data)
    from rightreasons.datasets.adapter import adapt_torch  # a data set itself, so it comes later

    return adapt_torch(data, workers=workers, seed=seed)


def group_counts(group: Tensor | None, num_groups: int) -> tuple[int, ...]:
    """Count the samples of each group; unknown groups (-1) are not counted."""
    if group is None:
        return ()
    return tuple(torch.bincount(group[group >= 0], minlength=num_groups).tolist())


def spread_over_classes(labels: Tensor, num_samples: int) -> Tensor:
    """Row numbers of samples that are spread evenly over the classes."""
    order = torch.argsort(labels, stable=True)
    return order[torch.linspace(0, len(order) - 1, min(num_samples, len(order))).long()]
