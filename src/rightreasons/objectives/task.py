"""Exchanging what a model is for, with the penalties as they were."""

from rightreasons.objectives.objective import Objective, Term

__all__ = ["with_task"]


def with_task(objective: Objective, term: Term) -> Objective:
    """The same penalties with another task: ``term`` in the place of what was the task.

    Example:
        >>> from rightreasons.objectives import CVAR, CrossEntropy, WeightDecay
        >>> with_task(CrossEntropy() + 0.1 * WeightDecay(), CVAR()).weights
        {'cvar': 1.0, 'weight_decay': 0.1}
    """
    penalties = []
    for name, one in objective.terms.items():
        if isinstance(one, Term) and not one.is_task:
            settles = name in objective.auto_weights
            weight = objective.auto_weights[name] if settles else objective.weights[name]
            penalties.append((name, one, weight))
    return Objective(
        [(term.name, term, 1.0), *penalties],  # type: ignore[list-item]
        frozen_statistics=objective.frozen_statistics,
        max_rows=objective.max_rows,
    )
