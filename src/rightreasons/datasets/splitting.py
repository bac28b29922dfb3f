"""From samples to `Splits`: who goes where, and what the card says of it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rightreasons.datasets.dataset import Card, InMemory, Splits
from rightreasons.types import Batch

__all__ = ["group_counts", "in_memory_splits", "stratified"]


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
