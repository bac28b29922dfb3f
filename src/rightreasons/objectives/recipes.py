"""Methods by name: each one expression, with defaults that work.

A recipe takes keyword settings and gives an `Objective`. Weights multiply a mean over samples;
``weight="auto"`` lets them set themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from rightreasons.norm import Norm
from rightreasons.objectives.alignment_recipes import (
    alignment,
    atex,
    cure,
    hessian,
    ig_norm,
    ig_sum,
    iga,
    l2_alignment,
)
from rightreasons.objectives.cross_entropy import CrossEntropy
from rightreasons.objectives.group_dro import GroupDRO
from rightreasons.objectives.guided import decayed, guided
from rightreasons.objectives.input_gradient import InputGradient
from rightreasons.objectives.objective import Objective, Weight
from rightreasons.objectives.r3 import R3
from rightreasons.objectives.robust_recipes import (
    adv_r4,
    cert_r4,
    ibp_ex,
    ibp_ex_r3,
    pgd_ex,
    rand_r4,
    smooth_r3,
)
from rightreasons.registry import Registry
from rightreasons.target import Target

__all__ = [
    "RECIPES",
    "adv_r4",
    "alignment",
    "atex",
    "cert_r4",
    "cure",
    "erm",
    "group_dro",
    "hessian",
    "ibp_ex",
    "ibp_ex_r3",
    "ig_norm",
    "ig_sum",
    "iga",
    "input_gradient",
    "l2_alignment",
    "pgd_ex",
    "r3",
    "rand_r4",
    "smooth_r3",
]


def erm(
    *,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
    label_smoothing: float = 0.0,
) -> Objective:
    """Empirical risk minimisation: cross-entropy alone, the baseline.

    Example:
        >>> erm().weights
        {'cross_entropy': 1.0}
    """
    task = CrossEntropy(class_weights=class_weights, label_smoothing=label_smoothing)
    return decayed(task.as_objective(), weight_decay)


def r3(
    *,
    weight: Weight = 30.0,
    target: Target | str = Target.LOSS,
    norm: Norm = "squared_l2",
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """Right for the right reasons: no input gradient inside the mask.

    Example:
        >>> r3(weight=30.0, weight_decay=1e-4).weights
        {'cross_entropy': 1.0, 'r3': 30.0, 'weight_decay': 0.0001}
    """
    return guided(weight * R3(target=target, norm=norm), weight_decay, class_weights)


def input_gradient(
    *,
    weight: Weight = 0.1,
    target: Target | str = Target.LOGIT,
    norm: Norm = "l2",
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """Small input gradients everywhere; needs no masks.

    Example:
        >>> input_gradient(weight="auto").weights
        {'cross_entropy': 1.0, 'input_gradient': 0.0}
    """
    return guided(weight * InputGradient(target=target, norm=norm), weight_decay, class_weights)


def group_dro(
    *,
    num_groups: int | None = None,
    step_size: float = 0.01,
    adjustment: float = 0.0,
    group_counts: Sequence[int] | None = None,
    weight_decay: float = 0.0,
) -> Objective:
    """Group DRO: the worst group counts most; needs group labels.

    Example:
        >>> group_dro(num_groups=2).weights
        {'group_dro': 1.0}
    """
    term = GroupDRO(
        num_groups=num_groups,
        step_size=step_size,
        adjustment=adjustment,
        group_counts=None if group_counts is None else tuple(group_counts),
    )
    return decayed(term.as_objective(), weight_decay)


RECIPES: Registry[Objective] = Registry(
    "recipe",
    {
        "adv_r4": adv_r4,
        "alignment": alignment,
        "atex": atex,
        "cert_r4": cert_r4,
        "cure": cure,
        "erm": erm,
        "group_dro": group_dro,
        "hessian": hessian,
        "ibp_ex": ibp_ex,
        "ibp_ex_r3": ibp_ex_r3,
        "ig_norm": ig_norm,
        "ig_sum": ig_sum,
        "iga": iga,
        "input_gradient": input_gradient,
        "l2_alignment": l2_alignment,
        "pgd_ex": pgd_ex,
        "r3": r3,
        "rand_r4": rand_r4,
        "smooth_r3": smooth_r3,
    },
)
