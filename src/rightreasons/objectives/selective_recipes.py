"""Recipes for models that may abstain."""

from __future__ import annotations

from rightreasons.objectives.deep_gamblers import DeepGamblers
from rightreasons.objectives.guided import decayed
from rightreasons.objectives.objective import Objective
from rightreasons.objectives.one_sided import OneSided
from rightreasons.objectives.selective_net import SelectiveNet

__all__ = ["deep_gamblers", "one_sided", "selective_net"]


def deep_gamblers(
    *, reward: float = 2.2, warm_up: float = 1 / 3, weight_decay: float = 0.0
) -> Objective:
    """Deep Gamblers: abstaining pays a little; for the model `abstaining`.

    Example:
        >>> deep_gamblers(reward=4.0).weights
        {'deep_gamblers': 1.0}
    """
    return decayed(DeepGamblers(reward=reward, warm_up=warm_up).as_objective(), weight_decay)


def selective_net(
    *,
    coverage: float = 0.9,
    weight: float = 32.0,
    alpha: float = 0.5,
    weight_decay: float = 0.0,
) -> Objective:
    """SelectiveNet: few errors among a share of samples; for the model `selective_net`.

    Example:
        >>> selective_net(coverage=0.8).weights
        {'selective_net': 1.0}
    """
    term = SelectiveNet(coverage=coverage, weight=weight, alpha=alpha)
    return decayed(term.as_objective(), weight_decay)


def one_sided(*, mu: float = 1.0, weight_decay: float = 0.0) -> Objective:
    """One-sided prediction: for each class a large set with few strangers.

    Example:
        >>> one_sided(mu=1.67).weights
        {'one_sided': 1.0}
    """
    return decayed(OneSided(mu=mu).as_objective(), weight_decay)
