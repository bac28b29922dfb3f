"""Recipes that make input gradients, and with them attributions, change little around a sample.

Each takes keyword settings and gives an `Objective`, as those in `recipes`, where they are listed.
None needs masks. Weights are for inputs in [0, 1]; the alignment paper's own are for inputs
divided by their deviation, about 1/4, by which gradients shrink.
"""

from __future__ import annotations

from collections.abc import Sequence

from rightreasons.norm import Norm
from rightreasons.objectives.atex import ATEX
from rightreasons.objectives.cosine_alignment import CosineAlignment
from rightreasons.objectives.cure import CURE
from rightreasons.objectives.guided import guided
from rightreasons.objectives.hessian import Hessian
from rightreasons.objectives.ig_norm import IGNorm
from rightreasons.objectives.ig_sum import IGSum
from rightreasons.objectives.iga import IGA
from rightreasons.objectives.l2_alignment import L2Alignment
from rightreasons.objectives.objective import Objective, Weight
from rightreasons.target import Target

__all__ = [
    "alignment",
    "atex",
    "cure",
    "hessian",
    "ig_norm",
    "ig_sum",
    "iga",
    "l2_alignment",
]

_DEVIATION = 1 / 4  # of CIFAR's pixels in [0, 1]


def l2_alignment(
    *,
    weight: Weight = 0.01 * _DEVIATION**2,
    epsilon: float = 4 / 255,
    perturbation: str = "uniform",
    num_samples: int = 1,
    target: Target | str = Target.LOGIT,
    detach_source: bool = True,
    norm: Norm = "squared_l2",
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """L2 alignment: input gradients near a sample equal its own.

    Example:
        >>> l2_alignment().weights  # the paper's 0.01 in its units
        {'cross_entropy': 1.0, 'l2_alignment': 0.000625}
    """
    term = L2Alignment(
        epsilon=epsilon,
        perturbation=perturbation,
        num_samples=num_samples,
        target=target,
        detach_source=detach_source,
        norm=norm,
    )
    return guided(weight * term, weight_decay, class_weights)


def alignment(
    *,
    weight: Weight = 1.0,
    l2_weight: Weight = 0.01 * _DEVIATION**2,
    epsilon: float = 4 / 255,
    perturbation: str = "uniform",
    num_samples: int = 1,
    target: Target | str = Target.LOGIT,
    detach_source: bool = True,
    norm: Norm = "squared_l2",
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """Local gradient alignment: l2 and cosine, on one pass near each sample.

    ``weight`` is that of the cosine distance.

    Example:
        >>> alignment().weights
        {'cross_entropy': 1.0, 'cosine_alignment': 1.0, 'l2_alignment': 0.000625}
    """
    cosine = CosineAlignment(
        epsilon=epsilon,
        perturbation=perturbation,
        num_samples=num_samples,
        target=target,
        detach_source=detach_source,
    )
    l2 = L2Alignment(
        epsilon=epsilon,
        perturbation=perturbation,
        num_samples=num_samples,
        target=target,
        detach_source=detach_source,
        norm=norm,
    )
    return guided(weight * cosine + l2_weight * l2, weight_decay, class_weights)


def hessian(
    *,
    weight: Weight = 1e-3 * _DEVIATION**4,
    num_samples: int = 1,
    target: Target | str = Target.LOGIT,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """Hessian: logits that bend little; needs a smooth model, such as one with Softplus.

    Example:
        >>> hessian(weight=1e-6).weights
        {'cross_entropy': 1.0, 'hessian': 1e-06}
    """
    term = Hessian(num_samples=num_samples, target=target)
    return guided(weight * term, weight_decay, class_weights)


def cure(
    *,
    weight: Weight = 0.16,
    epsilon: float = 0.3,
    norm: Norm = "squared_l2",
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """CURE: a loss that bends little in the direction of its gradient.

    The paper has weight 4 and a step of 1.5, for inputs in units of about a fifth of [0, 1].

    Example:
        >>> cure().weights
        {'cross_entropy': 1.0, 'cure': 0.16}
    """
    return guided(weight * CURE(epsilon=epsilon, norm=norm), weight_decay, class_weights)


def iga(
    *,
    weight: Weight = 0.5,
    epsilon: float = 8 / 255,
    num_steps: int = 3,
    step_size: float = 0.3125,
    valid_range: tuple[float, float] | None = None,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """IGA: the label's gradient looks more like the image than the runner-up's.

    Example:
        >>> iga().weights
        {'cross_entropy': 1.0, 'iga': 0.5}
    """
    term = IGA(epsilon=epsilon, num_steps=num_steps, step_size=step_size, valid_range=valid_range)
    return guided(weight * term, weight_decay, class_weights)


def atex(
    *,
    weight: Weight = 1.0,
    epsilon: float = 8 / 255,
    temperature: float = 1.0,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """ATEX: predictions do not change across the gradient; the model is its own teacher.

    Example:
        >>> atex().weights
        {'cross_entropy': 1.0, 'atex': 1.0}
    """
    return guided(
        weight * ATEX(epsilon=epsilon, temperature=temperature), weight_decay, class_weights
    )


def ig_norm(
    *,
    weight: Weight = 0.1,
    epsilon: float = 8 / 255,
    num_segments: int = 5,
    num_steps: int = 7,
    step_size: float = 0.125,
    valid_range: tuple[float, float] | None = None,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """IG-NORM: small integrated gradients of the loss towards every point near a sample.

    Example:
        >>> ig_norm().weights
        {'cross_entropy': 1.0, 'ig_norm': 0.1}
    """
    term = IGNorm(
        num_segments=num_segments,
        epsilon=epsilon,
        num_steps=num_steps,
        step_size=step_size,
        valid_range=valid_range,
    )
    return guided(weight * term, weight_decay, class_weights)


def ig_sum(
    *,
    weight: Weight = 1.0,
    norm_weight: float = 1.0,
    epsilon: float = 8 / 255,
    num_segments: int = 5,
    num_steps: int = 7,
    step_size: float = 0.125,
    valid_range: tuple[float, float] | None = None,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """IG-SUM-NORM: adversarial training and small integrated gradients together.

    Example:
        >>> ig_sum().weights
        {'cross_entropy': 1.0, 'ig_sum': 1.0}
    """
    term = IGSum(
        norm_weight=norm_weight,
        num_segments=num_segments,
        epsilon=epsilon,
        num_steps=num_steps,
        step_size=step_size,
        valid_range=valid_range,
    )
    return guided(weight * term, weight_decay, class_weights)
