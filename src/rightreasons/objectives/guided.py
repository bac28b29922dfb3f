"""What recipes share: the task, penalties on top of it, and weight decay."""

from __future__ import annotations

from collections.abc import Sequence

from rightreasons.objectives.cross_entropy import CrossEntropy
from rightreasons.objectives.objective import Objective
from rightreasons.objectives.weight_decay import WeightDecay

__all__ = ["decayed", "guided"]


def guided(
    penalties: Objective, weight_decay: float, class_weights: Sequence[float] | None
) -> Objective:
    """Cross-entropy, the penalties, and weight decay if there is any.

    Example:
        >>> from rightreasons.objectives.r3 import R3
        >>> guided(30.0 * R3(), 0.1, None).weights
        {'cross_entropy': 1.0, 'r3': 30.0, 'weight_decay': 0.1}
    """
    return decayed(CrossEntropy(class_weights=class_weights) + penalties, weight_decay)


def decayed(objective: Objective, weight_decay: float) -> Objective:
    """The objective with weight decay, or itself if that is 0."""
    return objective + weight_decay * WeightDecay() if weight_decay else objective
