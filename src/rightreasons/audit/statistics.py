"""Statistics of the audit: how well something tells the label, and how likely that is by chance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightreasons.core.rng import random_stream

__all__ = ["adjust_for_families", "compare_with_permutations", "label_strength"]

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
