"""Recipes that keep heat maps and attention out of the mask.

Each takes keyword settings and gives an `Objective`, as those in `recipes`, where they are listed.
All need masks, and models with convolutional features.
"""

from __future__ import annotations

from collections.abc import Sequence

from rightreasons.objectives.abn import ABN
from rightreasons.objectives.attention_cross_entropy import AttentionCrossEntropy
from rightreasons.objectives.guided import guided
from rightreasons.objectives.objective import Objective, Weight
from rightreasons.objectives.reff import ReFF
from rightreasons.objectives.reff_l1 import ReFFL1
from rightreasons.objectives.reff_l2 import ReFFL2
from rightreasons.target import Target

__all__ = ["abn", "reff", "reff_l1", "reff_l2"]


def reff(
    *,
    weight: Weight = 1.0,
    layers: Sequence[str] | str | None = None,
    layer_weights: Sequence[float] | None = None,
    target: Target | str = Target.LOGIT,
    ramp: float = 0.0,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """ReFF: no Grad-CAM inside the mask, at several layers at once.

    The default weight is the paper's. Small nets that learn from scratch in few updates took 100 to
    300, with a ramp; see the suite ``reff-table3``.

    Example:
        >>> reff(layers="layer4", layer_weights=[1000.0]).weights
        {'cross_entropy': 1.0, 'reff': 1.0}
    """
    term = ReFF(layers=layers, layer_weights=layer_weights, target=target, ramp=ramp)
    return guided(weight * term, weight_decay, class_weights)


def reff_l1(
    *,
    weight: Weight = 1e-3,
    layers: Sequence[str] | str | None = None,
    layer_weights: Sequence[float] | None = None,
    target: Target | str = Target.LOGIT,
    ramp: float = 0.0,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """ReFF (L1): Grad-CAM maps near the annotation, by absolute distance.

    The default weight is near the paper's; small nets that learn from scratch took 3, with a ramp.

    Example:
        >>> reff_l1().weights
        {'cross_entropy': 1.0, 'reff_l1': 0.001}
    """
    term = ReFFL1(layers=layers, layer_weights=layer_weights, target=target, ramp=ramp)
    return guided(weight * term, weight_decay, class_weights)


def reff_l2(
    *,
    weight: Weight = 1e-3,
    layers: Sequence[str] | str | None = None,
    layer_weights: Sequence[float] | None = None,
    target: Target | str = Target.LOGIT,
    ramp: float = 0.0,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """ReFF (L2): Grad-CAM maps near the annotation, by squared distance.

    The default weight is near the paper's; small nets that learn from scratch took 3, with a ramp.

    Example:
        >>> reff_l2().weights
        {'cross_entropy': 1.0, 'reff_l2': 0.001}
    """
    term = ReFFL2(layers=layers, layer_weights=layer_weights, target=target, ramp=ramp)
    return guided(weight * term, weight_decay, class_weights)


def abn(
    *,
    weight: Weight = 10.0,
    attention_weight: float = 1.0,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """ABN: an attention branch whose map equals the annotation.

    Needs a model with an attention branch, such as ``attention_branch``.

    Example:
        >>> abn().weights
        {'cross_entropy': 1.0, 'attention_cross_entropy': 1.0, 'abn': 10.0}
    """
    penalties = attention_weight * AttentionCrossEntropy() + weight * ABN()
    return guided(penalties, weight_decay, class_weights)
