"""Splits of samples into training, validation and test data."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rightreasons.core.checks import check_fraction
from rightreasons.datasets.augmented import Augmented
from rightreasons.datasets.dataset import Card, Dataset, InMemory, Splits, group_counts
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

__all__ = [
    "assign_splits",
    "change_training",
    "in_memory_splits",
    "stratified_split",
]


def stratified_split(
    y: Tensor, *, sizes: Sequence[int], stream: np.random.Generator
) -> list[Tensor]:
    """Split samples at random; every part has the same fraction of each label.

    Args:
        y: Labels ``(N,)``.
        sizes: Number of samples of each part; the remaining samples are one more part.
        stream: Random numbers for the order.

    Returns:
        The indices of each part, ascending: ``len(sizes) + 1`` tensors, the remaining last.

    Example:
        >>> held_out, rest = stratified_split(
        ...     torch.tensor([0, 0, 0, 1, 1, 1]), sizes=[2], stream=np.random.default_rng(0)
        ... )
        >>> len(held_out), len(rest)
        (2, 4)
    """
    labels = y.numpy()
    shuffled = stream.permutation(len(labels))
    rank = np.empty(len(labels))
    for label in np.unique(labels):
        members = shuffled[labels[shuffled] == label]
        rank[members] = (np.arange(len(members)) + 0.5) / len(members)
    # sorted by their relative rank within their label, the first n hold each label's fraction
    order = shuffled[np.argsort(rank[shuffled], kind="stable")]
    parts = np.split(order, np.cumsum(sizes))
    return [torch.from_numpy(np.sort(part)) for part in parts]


def in_memory_splits(*, train: Batch, val: Batch | None, test: Batch, card: Card) -> Splits:
    """Make splits in memory with one card, and count the training groups."""
    card = replace(card, train_group_counts=group_counts(train.group, len(card.groups)))
    return Splits(
        train=InMemory(train, card),
        val=None if val is None else InMemory(val, card),
        test=InMemory(test, card),
    )


def assign_splits(
    strata: Tensor, *, test_share: float, validation_share: float, stream: np.random.Generator
) -> list[str]:
    """Assign each sample to one split, by one permutation.

    Args:
        strata: ``(N,)`` integers; every split has the same fraction of each.
        test_share: Fraction of the samples for the test, above 0.
        validation_share: Fraction of the samples for validation, from 0.
        stream: Random numbers for the order.

    Returns:
        ``"train"``, ``"val"`` or ``"test"`` for each sample.

    Example:
        >>> import torch
        >>> strata, stream = torch.tensor([0] * 5 + [1] * 5), np.random.default_rng(0)
        >>> names = assign_splits(strata, test_share=0.2, validation_share=0.0, stream=stream)
        >>> sorted(names)[:4], names[:5].count("test")
        (['test', 'test', 'train', 'train'], 1)
    """
    check_fraction("test_share", test_share, below_one=True)
    check_fraction("validation_share", validation_share, below_one=True)
    sizes = [round(test_share * len(strata)), round(validation_share * len(strata))]
    if not 0 < sizes[0] <= sum(sizes) < len(strata):
        raise InvalidSettingError(
            f"Expected `test_share` and `validation_share` to leave samples to train and to test "
            f"on, but got {test_share:g} and {validation_share:g} of {len(strata)} samples."
        )
    names = ["train"] * len(strata)
    test, val, _ = stratified_split(strata, sizes=sizes, stream=stream)
    for split, indices in (("test", test), ("val", val)):
        for index in indices.tolist():
            names[index] = split
    return names


def change_training(splits: Splits, change: Callable[[Dataset], Dataset], *, note: str) -> Splits:
    """Change the training data; the other parts keep their samples and get the new card.

    Augmented data are changed before augmentation.

    Args:
        splits: The data; not modified.
        change: Function from the training data to data with the same classes and groups.
        note: A sentence for the card's description.
    """
    train = splits.train
    changed = train.rebase(change(train.base)) if isinstance(train, Augmented) else change(train)
    card = changed.card
    card = replace(card, description=f"{card.description} {note}".strip())
    val = None if splits.val is None else _with_card(splits.val, card)
    return Splits(
        train=_with_card(changed, card),
        val=val,
        test=_with_card(splits.test, card),
        more_tests={name: _with_card(part, card) for name, part in splits.more_tests.items()},
    )


def _with_card(part: Dataset, card: Card) -> Dataset:
    """A shallow copy of the data with another card."""
    copied = copy.copy(part)
    copied.card = card
    return copied
