"""How samples are split into training, validation and test data."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rightreasons.core.checks import check_fraction
from rightreasons.datasets.augmented import Augmented
from rightreasons.datasets.dataset import Card, Dataset, InMemory, Splits
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

__all__ = [
    "dealt_out",
    "group_counts",
    "in_memory_splits",
    "stratified",
    "with_training",
]


def group_counts(group: Tensor | None, num_groups: int) -> tuple[int, ...]:
    """Count the samples of each group; unknown groups (-1) are not counted."""
    if group is None:
        return ()
    return tuple(torch.bincount(group[group >= 0], minlength=num_groups).tolist())


def stratified(y: Tensor, *, sizes: Sequence[int], stream: np.random.Generator) -> list[Tensor]:
    """Deal samples out at random, the shares of the labels being equal in all parts.

    Args:
        y: Labels ``(N,)``.
        sizes: How many samples each part gets; the rest goes to one more part.
        stream: Where the random order comes from.

    Returns:
        The positions of each part, ascending, ``len(sizes) + 1`` tensors; the last is the rest.

    Example:
        >>> held_out, rest = stratified(
        ...     torch.tensor([0, 0, 0, 1, 1, 1]), sizes=[2], stream=np.random.default_rng(0)
        ... )
        >>> len(held_out), len(rest)
        (2, 4)
    """
    labels = y.numpy()
    shuffled = stream.permutation(len(labels))
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = shuffled[labels[shuffled] == label]
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    # the first n by their place among their own label are a fair share of every label
    order = shuffled[np.argsort(place[shuffled], kind="stable")]
    parts = np.split(order, np.cumsum(sizes))
    return [torch.from_numpy(np.sort(part)) for part in parts]


def in_memory_splits(*, train: Batch, val: Batch | None, test: Batch, card: Card) -> Splits:
    """Hold the parts in memory under one card, with the training groups counted."""
    card = replace(card, train_group_counts=group_counts(train.group, len(card.groups)))
    return Splits(
        train=InMemory(train, card),
        val=None if val is None else InMemory(val, card),
        test=InMemory(test, card),
    )


def dealt_out(
    strata: Tensor, *, test_share: float, validation_share: float, stream: np.random.Generator
) -> list[str]:
    """Name the split of each sample: one permutation, so no sample is in two.

    Args:
        strata: ``(N,)`` integers; every split gets the same share of each.
        test_share: Of the samples, above 0.
        validation_share: Of the samples, from 0.
        stream: Where the random order comes from.

    Returns:
        ``"train"``, ``"val"`` or ``"test"`` for each sample.

    Example:
        >>> import torch
        >>> strata, stream = torch.tensor([0] * 5 + [1] * 5), np.random.default_rng(0)
        >>> names = dealt_out(strata, test_share=0.2, validation_share=0.0, stream=stream)
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
    test, val, _ = stratified(strata, sizes=sizes, stream=stream)
    for split, places in (("test", test), ("val", val)):
        for place in places.tolist():
            names[place] = split
    return names


def with_training(splits: Splits, change: Callable[[Dataset], Dataset], *, said: str) -> Splits:
    """Change the training data; the other parts keep their samples and share the new card.

    Data that training sees flipped and cropped are changed before that.

    Args:
        splits: Left as they are.
        change: From the training data to others of the same classes and groups.
        said: A sentence for the card's description.
    """
    train = splits.train
    changed = train.rebase(change(train.base)) if isinstance(train, Augmented) else change(train)
    card = changed.card
    card = replace(card, description=f"{card.description} {said}".strip())
    val = None if splits.val is None else _under(splits.val, card)
    return Splits(
        train=_under(changed, card),
        val=val,
        test=_under(splits.test, card),
        more_tests={name: _under(part, card) for name, part in splits.more_tests.items()},
    )


def _under(part: Dataset, card: Card) -> Dataset:
    """The same data under another card."""
    same = copy.copy(part)
    same.card = card
    return same
