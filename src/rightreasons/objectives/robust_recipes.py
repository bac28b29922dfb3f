"""Recipes that guide a model by moving masked features within a box.

Each takes keyword settings and gives an `Objective`, as those in `recipes`, where they are listed.
"""

from __future__ import annotations

from collections.abc import Sequence

from rightreasons.norm import Norm
from rightreasons.objectives.adv_r4 import AdvR4
from rightreasons.objectives.cert_r4 import CertR4
from rightreasons.objectives.guided import guided
from rightreasons.objectives.ibp_ex import IbpEx
from rightreasons.objectives.objective import Objective, Weight
from rightreasons.objectives.pgd_ex import PgdEx
from rightreasons.objectives.r3 import R3
from rightreasons.objectives.r4 import Form
from rightreasons.objectives.rand_r4 import RandR4
from rightreasons.objectives.smooth_r3 import SmoothR3
from rightreasons.target import Target

__all__ = [
    "adv_r4",
    "cert_r4",
    "ibp_ex",
    "ibp_ex_r3",
    "pgd_ex",
    "rand_r4",
    "smooth_r3",
]


def smooth_r3(
    *,
    weight: Weight = 100.0,
    epsilon: float = 0.1,
    num_samples: int = 3,
    noise: str = "uniform",
    target: Target | str = Target.LOSS,
    norm: Norm = "squared_l2",
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """Smooth-R3: no smoothed input gradient inside the mask.

    Example:
        >>> smooth_r3(weight=3.0).weights
        {'cross_entropy': 1.0, 'smooth_r3': 3.0}
    """
    term = SmoothR3(num_samples=num_samples, epsilon=epsilon, noise=noise, target=target, norm=norm)
    return guided(weight * term, weight_decay, class_weights)


def rand_r4(
    *,
    weight: Weight = 100.0,
    epsilon: float | None = 0.5,
    num_samples: int = 5,
    target: Target | str = Target.LOSS,
    norm: Norm = "squared_l2",
    form: Form = "gradient",
    valid_range: tuple[float, float] | None = None,
    ramp: float = 0.0,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """Rand-R4: no masked gradient at random points of the masked box.

    Example:
        >>> rand_r4(weight=3.0).weights
        {'cross_entropy': 1.0, 'rand_r4': 3.0}
    """
    term = RandR4(
        epsilon=epsilon,
        num_samples=num_samples,
        target=target,
        norm=norm,
        form=form,
        valid_range=valid_range,
        ramp=ramp,
    )
    return guided(weight * term, weight_decay, class_weights)


def adv_r4(
    *,
    weight: Weight = 100.0,
    epsilon: float | None = 0.5,
    num_steps: int = 3,
    step_size: float = 0.25,
    num_samples: int = 1,
    target: Target | str = Target.LOSS,
    norm: Norm = "squared_l2",
    form: Form = "gradient",
    valid_range: tuple[float, float] | None = None,
    ramp: float = 0.0,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """Adv-R4: no masked gradient where an attack on it ends.

    Example:
        >>> adv_r4(weight=3.0).weights
        {'cross_entropy': 1.0, 'adv_r4': 3.0}
    """
    term = AdvR4(
        epsilon=epsilon,
        num_steps=num_steps,
        step_size=step_size,
        num_samples=num_samples,
        target=target,
        norm=norm,
        form=form,
        valid_range=valid_range,
        ramp=ramp,
    )
    return guided(weight * term, weight_decay, class_weights)


def cert_r4(
    *,
    weight: Weight = 10.0,
    epsilon: float | None = 0.1,
    target: Target | str = Target.LOSS,
    norm: Norm = "squared_l2",
    form: Form = "gradient",
    valid_range: tuple[float, float] | None = None,
    ramp: float = 0.0,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """Cert-R4: a small proven bound of the masked gradient in the masked box.

    Example:
        >>> cert_r4(weight=3.0).weights
        {'cross_entropy': 1.0, 'cert_r4': 3.0}
    """
    term = CertR4(
        epsilon=epsilon,
        target=target,
        norm=norm,
        form=form,
        valid_range=valid_range,
        ramp=ramp,
    )
    return guided(weight * term, weight_decay, class_weights)


def ibp_ex(
    *,
    weight: Weight = 0.3,
    epsilon: float | None = 1.0,
    valid_range: tuple[float, float] | None = None,
    ramp: float = 0.0,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """IBP-Ex: right for the worst logits that interval bounds allow in the masked box.

    Example:
        >>> ibp_ex(epsilon=None).weights  # masked features may take every valid value
        {'cross_entropy': 1.0, 'ibp_ex': 0.3}
    """
    term = IbpEx(epsilon=epsilon, valid_range=valid_range, ramp=ramp)
    return guided(weight * term, weight_decay, class_weights)


def pgd_ex(
    *,
    weight: Weight = 1.0,
    epsilon: float | None = 0.5,
    num_steps: int = 5,
    step_size: float = 0.25,
    valid_range: tuple[float, float] | None = None,
    ramp: float = 0.0,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """PGD-Ex: right where an attack on the masked features ends.

    Example:
        >>> pgd_ex().weights
        {'cross_entropy': 1.0, 'pgd_ex': 1.0}
    """
    term = PgdEx(
        num_steps=num_steps,
        step_size=step_size,
        epsilon=epsilon,
        valid_range=valid_range,
        ramp=ramp,
    )
    return guided(weight * term, weight_decay, class_weights)


def ibp_ex_r3(
    *,
    weight: Weight = 0.3,
    r3_weight: Weight = 30.0,
    epsilon: float | None = 1.0,
    target: Target | str = Target.LOSS,
    norm: Norm = "squared_l2",
    valid_range: tuple[float, float] | None = None,
    ramp: float = 0.0,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """IBP-Ex + R3: both, each with its own weight.

    Example:
        >>> ibp_ex_r3().weights
        {'cross_entropy': 1.0, 'ibp_ex': 0.3, 'r3': 30.0}
    """
    term = IbpEx(epsilon=epsilon, valid_range=valid_range, ramp=ramp)
    penalties = weight * term + r3_weight * R3(target=target, norm=norm)
    return guided(penalties, weight_decay, class_weights)
