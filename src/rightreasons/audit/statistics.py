"""Statistics of the audit: how well something tells the label, and how likely that is by chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightreasons.core.rng import random_stream

__all__ = [
    "adjust_for_families",
    "against_others",
    "best_of_classes",
    "chance_of_best",
    "class_weights",
    "compare_with_permutations",
    "label_strength",
    "presence_strengths",
]

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


def label_strength(predicted: Numbers, labels: Numbers) -> float:
    r"""How well predictions tell the label, from 0 for chance to 1.

    .. math:: S = (b - c) / (1 - c)

    where b is the balanced accuracy and c is one over the number of classes.

    Args:
        predicted: Predicted classes ``(N,)``, of samples that took no part in a fit.
        labels: Labels ``(N,)`` of at least two classes.

    Example:
        >>> label_strength(np.array([0, 0, 1, 0]), np.array([0, 0, 1, 1]))
        0.5
    """
    classes = np.unique(labels)
    accuracies = [float((predicted[labels == y] == y).mean()) for y in classes]
    chance = 1 / len(classes)
    return (sum(accuracies) / len(classes) - chance) / (1 - chance)


def compare_with_permutations(
    predicted: Numbers, labels: Numbers, *, num_draws: int = 200, seed: int = 0
) -> tuple[Floats, Floats]:
    """Test several predictions of the label at once, by permutations and their maximum.

    A p-value is the share of permutations of the labels in which the *best* of all members is at
    least as strong. It therefore holds for the best of many members too.

    Args:
        predicted: Predictions of each member, ``(N, M)``.
        labels: Labels ``(N,)``.
        num_draws: Number of permutations.
        seed: Random seed for the permutations.

    Returns:
        The strength and the p-value of each member, ``(M,)``.
    """
    strengths = _strengths(predicted, labels)
    stream = random_stream(seed, "audit", "permutations")
    largest = np.array(
        [_strengths(predicted, stream.permutation(labels)).max() for _ in range(num_draws)]
    )
    # A small slack, so that equal strengths count as equal whatever their rounding.
    reached = (largest[:, None] >= strengths[None] - 1e-12).sum(axis=0)
    return strengths, (1 + reached) / (1 + num_draws)


def adjust_for_families(p_values: Floats) -> Floats:
    """Adjust p-values so that a threshold bounds the false discovery rate (Benjamini-Hochberg).

    Example:
        >>> adjust_for_families(np.array([0.01, 0.04, 0.03])).round(3).tolist()
        [0.03, 0.04, 0.04]
    """
    order = np.argsort(p_values)[::-1]
    ranks = np.arange(len(p_values), 0, -1)
    adjusted = np.minimum.accumulate(p_values[order] * len(p_values) / ranks)
    result: Floats = np.empty(len(p_values))
    result[order] = np.minimum(adjusted, 1.0)
    return result


def _strengths(predicted: Numbers, labels: Numbers) -> Floats:
    """The strength of each member; each sample counts by how rare its class is."""
    classes, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    weight: Any = 1 / (len(classes) * counts[inverse])
    balanced = ((predicted == labels[:, None]) * weight[:, None]).sum(axis=0)
    chance = 1 / len(classes)
    return np.asarray((balanced - chance) / (1 - chance))


def presence_strengths(presence: Floats, labels: Numbers) -> Floats:
    r"""How well the presence of something tells each class from the others, from -1 to 1.

    .. math:: S_{cw} = P(w \mid c) - \frac{1}{K - 1} \sum_{k \ne c} P(w \mid k)

    With two classes this is the strength of `label_strength` for "it is class c if w is there".

    Args:
        presence: 1 where a text has something, ``(N, M)``.
        labels: Labels ``(N,)`` of at least two classes.

    Returns:
        A row for each class that occurs, in ascending order, ``(K, M)``.

    Example:
        >>> presence_strengths(np.array([[1.0], [0.0], [0.0], [0.0]]), np.array([0, 0, 1, 1]))
        array([[ 0.5],
               [-0.5]])
    """
    return against_others(class_weights(labels) @ presence)


def against_others(rates: Floats) -> Floats:
    """The rate of each class less the mean of the other classes, ``(K, M)``."""
    others = (rates.sum(axis=0) - rates) / (len(rates) - 1)
    return np.asarray(rates - others, dtype=np.float64)


def class_weights(labels: Numbers) -> Floats:
    """One over the size of its class for each sample, a row for each class."""
    known = np.unique(labels)
    members = (labels[None] == known[:, None]).astype(np.float64)
    return np.asarray(members / members.sum(axis=1, keepdims=True))


def chance_of_best(
    strengths: Floats,
    measure: Callable[[Numbers], Floats],
    labels: Numbers,
    *,
    num_draws: int = 200,
    seed: int = 0,
) -> Floats:
    """P-values: how often the best of all members is as strong if labels are permuted.

    Args:
        strengths: Strengths to test, ``(M,)``.
        measure: Function from labels to the strengths of all members.
        labels: Labels ``(N,)``.
        num_draws: Number of permutations.
        seed: Random seed for the permutations.
    """
    stream = random_stream(seed, "audit", "permutations")
    largest = np.array(
        [measure(stream.permutation(labels)).max(initial=0.0) for _ in range(num_draws)]
    )
    reached = (largest[:, None] >= strengths[None] - 1e-12).sum(axis=0)
    return np.asarray((1 + reached) / (1 + num_draws))


def best_of_classes(strengths: Floats, free: NDArray[np.bool_]) -> dict[int, int]:
    """The strongest member, and the best of each other class that is at least half as strong.

    Args:
        strengths: A row for each class, ``(K, M)``.
        free: Which members may be taken, ``(M,)``.

    Returns:
        The row of each chosen member, the strongest first.
    """
    allowed = np.where(free[None], strengths, -np.inf)
    if not free.any() or allowed.max() <= 0:
        return {}
    label, first = np.unravel_index(int(allowed.argmax()), allowed.shape)
    members = {int(first): int(label)}
    own = allowed.argmax(axis=0)
    for other in range(len(strengths)):
        mine = np.where(own == other, allowed[other], -np.inf)
        best = int(mine.argmax())
        if other != label and mine[best] >= allowed.max() / 2:
            members[best] = other
    return members
