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
from rightreasons.objectives.cvar import CVAR
from rightreasons.objectives.density_recipes import (
    at_fgsm,
    at_pgd,
    density,
    group_dro_density,
    score_matching,
)
from rightreasons.objectives.focus_recipes import abn, reff, reff_l1, reff_l2
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
from rightreasons.objectives.selective_recipes import deep_gamblers, one_sided, selective_net
from rightreasons.objectives.spectral_decoupling import SpectralDecoupling
from rightreasons.registry import Registry
from rightreasons.target import Target

__all__ = [
    "RECIPES",
    "abn",
    "adv_r4",
    "alignment",
    "at_fgsm",
    "at_pgd",
    "atex",
    "cert_r4",
    "cure",
    "cvar_dro",
    "deep_gamblers",
    "density",
    "erm",
    "group_dro",
    "group_dro_density",
    "hessian",
    "ibp_ex",
    "ibp_ex_r3",
    "ig_norm",
    "ig_sum",
    "iga",
    "input_gradient",
    "l2_alignment",
    "one_sided",
    "pgd_ex",
    "r3",
    "rand_r4",
    "reff",
    "reff_l1",
    "reff_l2",
    "score_matching",
    "selective_net",
    "smooth_r3",
    "spectral_decoupling",
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


def cvar_dro(*, alpha: float = 0.2, weight_decay: float = 0.0) -> Objective:
    """CVaR DRO: the hardest share of each batch counts alone; needs no groups.

    Example:
        >>> cvar_dro(alpha=0.1).weights
        {'cvar': 1.0}
    """
    return decayed(CVAR(alpha=alpha).as_objective(), weight_decay)


def spectral_decoupling(
    *,
    weight: Weight = 0.1,
    gamma: float = 0.0,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """Spectral decoupling: small logits, so that weak features are learned too.

    Example:
        >>> spectral_decoupling(weight=0.3).weights
        {'cross_entropy': 1.0, 'spectral_decoupling': 0.3}
    """
    return guided(weight * SpectralDecoupling(gamma=gamma), weight_decay, class_weights)


RECIPES: Registry[Objective] = Registry(
    "recipe",
    {
        "abn": abn,
        "adv_r4": adv_r4,
        "alignment": alignment,
        "at_fgsm": at_fgsm,
        "at_pgd": at_pgd,
        "atex": atex,
        "cert_r4": cert_r4,
        "cure": cure,
        "cvar_dro": cvar_dro,
        "deep_gamblers": deep_gamblers,
        "density": density,
        "erm": erm,
        "group_dro": group_dro,
        "group_dro_density": group_dro_density,
        "hessian": hessian,
        "ibp_ex": ibp_ex,
        "ibp_ex_r3": ibp_ex_r3,
        "ig_norm": ig_norm,
        "ig_sum": ig_sum,
        "iga": iga,
        "input_gradient": input_gradient,
        "l2_alignment": l2_alignment,
        "one_sided": one_sided,
        "pgd_ex": pgd_ex,
        "r3": r3,
        "rand_r4": rand_r4,
        "reff": reff,
        "reff_l1": reff_l1,
        "reff_l2": reff_l2,
        "score_matching": score_matching,
        "selective_net": selective_net,
        "smooth_r3": smooth_r3,
        "spectral_decoupling": spectral_decoupling,
    },
)
