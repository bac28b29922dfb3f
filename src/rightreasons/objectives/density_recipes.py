"""Recipes of the density paper and of those it compares with: smooth or adversarially trained.

Each takes keyword settings and gives an `Objective`, as those in `recipes`, where they are listed.
None needs masks. Weights and radii are for inputs in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence

from rightreasons.attacks import BallNorm
from rightreasons.objectives.adversarial_training import AdversarialTraining
from rightreasons.objectives.cross_entropy import CrossEntropy
from rightreasons.objectives.density import Density, DensityForm
from rightreasons.objectives.group_dro import GroupDRO
from rightreasons.objectives.guided import decayed, guided
from rightreasons.objectives.objective import Objective, Weight
from rightreasons.objectives.score_matching import ScoreMatching
from rightreasons.setting import checked_share

__all__ = [
    "at_fgsm",
    "at_pgd",
    "density",
    "group_dro_density",
    "score_matching",
]


def density(
    *,
    weight: Weight = 0.1,
    form: DensityForm = "logsumexp",
    p: float = 2.0,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """Density smoothing: small gradients of the input's log-density.

    The paper's supplement has weights of 0.1 and 0.2.

    Example:
        >>> density().weights
        {'cross_entropy': 1.0, 'density': 0.1}
    """
    return guided(weight * Density(form=form, p=p), weight_decay, class_weights)


def group_dro_density(
    *,
    weight: Weight = 0.1,
    form: DensityForm = "logsumexp",
    p: float = 2.0,
    num_groups: int | None = None,
    step_size: float = 0.01,
    adjustment: float = 0.0,
    group_counts: Sequence[int] | None = None,
    weight_decay: float = 0.0,
) -> Objective:
    """Group DRO with density smoothing; needs group labels.

    Example:
        >>> group_dro_density().weights
        {'group_dro': 1.0, 'density': 0.1}
    """
    task = GroupDRO(
        num_groups=num_groups,
        step_size=step_size,
        adjustment=adjustment,
        group_counts=None if group_counts is None else tuple(group_counts),
    )
    return decayed(task + weight * Density(form=form, p=p), weight_decay)


def score_matching(
    *,
    weight: Weight = 1e-5,
    epsilon: float = 0.01,
    num_samples: int = 1,
    stability: float = 1e-4,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """Score matching: the density that the label's logit implies is the data's.

    The weight is the one the paper's code has for CIFAR, with inputs divided by their deviation.

    Example:
        >>> score_matching().weights
        {'cross_entropy': 1.0, 'score_matching': 1e-05}
    """
    term = ScoreMatching(epsilon=epsilon, num_samples=num_samples, stability=stability)
    return guided(weight * term, weight_decay, class_weights)


def at_fgsm(
    *,
    epsilon: float = 0.1,
    clean_weight: float = 0.5,
    norm: BallNorm = "linf",
    valid_range: tuple[float, float] | None = None,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """Adversarial training by FGSM: also right after one step up the loss.

    Goodfellow et al. weigh samples and attacked samples the same; ``clean_weight=0`` trains on
    attacked ones alone.

    Example:
        >>> at_fgsm().weights
        {'cross_entropy': 0.5, 'adversarial_training': 0.5}
    """
    term = AdversarialTraining(
        epsilon=epsilon,
        norm=norm,
        num_steps=1,
        step_size=epsilon,
        random_start=False,
        valid_range=valid_range,
        class_weights=class_weights,
    )
    return decayed(_mixed(term, clean_weight, class_weights), weight_decay)


def at_pgd(
    *,
    epsilon: float = 0.1,
    num_steps: int = 5,
    step_size: float | None = None,
    clean_weight: float = 0.0,
    norm: BallNorm = "linf",
    random_start: bool = True,
    valid_range: tuple[float, float] | None = None,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """Adversarial training by PGD: right where several steps up the loss end.

    Madry et al. train on attacked samples alone; ``clean_weight`` mixes the others in.

    Example:
        >>> at_pgd().weights
        {'adversarial_training': 1.0}
    """
    term = AdversarialTraining(
        epsilon=epsilon,
        norm=norm,
        num_steps=num_steps,
        step_size=step_size,
        random_start=random_start,
        valid_range=valid_range,
        class_weights=class_weights,
    )
    return decayed(_mixed(term, clean_weight, class_weights), weight_decay)


def _mixed(
    term: AdversarialTraining, clean_weight: float, class_weights: Sequence[float] | None
) -> Objective:
    share = checked_share("clean_weight", clean_weight)
    if share == 0:
        return term.as_objective()
    return share * CrossEntropy(class_weights=class_weights) + (1 - share) * term
