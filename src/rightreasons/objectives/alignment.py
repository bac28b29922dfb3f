"""Gradient alignment: input gradients at a sample and near it agree (Joo et al. 2023).

`source_gradient` and `nearby_gradient` also serve other terms that compare two gradients.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import TypedDict, Unpack, override

from rightreasons.core.checks import check_choice, check_flag, check_integer, positive_float
from rightreasons.core.norms import Norm, check_norm, sample_norm
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.fast_second_order import fast_second_order
from rightreasons.objectives.memory import OwnPasses
from rightreasons.objectives.objective import Objective, Term, Weight
from rightreasons.objectives.recipe import recipe
from rightreasons.probe.probe import Probe
from rightreasons.types import Target

__all__ = [
    "PERTURBATIONS",
    "AlignmentTerm",
    "CosineAlignment",
    "GradientPair",
    "L2Alignment",
    "Nearby",
    "alignment",
    "gradient_pair",
    "l2_alignment",
    "nearby_gradient",
    "source_gradient",
]

PERTURBATIONS = ("uniform", "gaussian", "sign")

PIXEL_DEVIATION = 1 / 4
"""Standard deviation of CIFAR's pixels in [0, 1]: the paper's input unit."""
SMALLEST_NORM = 1e-12
"""A gradient with a smaller norm has no direction."""


class AlignmentSettings(TypedDict, total=False):
    """Settings of `AlignmentTerm` that its members pass on."""

    epsilon: float
    perturbation: str
    num_samples: int
    target: Target | str
    detach_source: bool


class AlignmentTerm(OwnPasses, Term):
    r"""A distance of the input gradient at a sample and near it, averaged over K points.

    .. math:: \frac1K \sum_k \Gamma\big(\nabla_x t(x + \delta_k), \nabla_x t(x)\big), \qquad
        \delta_k \sim U([-\epsilon, \epsilon]^d)

    Terms with equal settings compare at the same points and share one pass. So l2 and cosine
    together cost no more than one of them.

    Args:
        epsilon: How far the points are, in input units; 4/255 in the paper.
        perturbation: ``"uniform"`` in the box; ``"gaussian"`` with deviation epsilon; ``"sign"``,
            epsilon times the sign of the source gradient on every feature.
        num_samples: K, 1 as in the paper; ``"sign"`` has one point only.
        target: The output that is differentiated, the label's logit as in the paper.
        detach_source: Hold the gradient at the sample constant, as the paper does to save time.
            Only the gradient near it is then trained; False trains both.
    """

    needs_gradient = True
    compiles = True

    def __init__(
        self,
        *,
        epsilon: float = 4 / 255,
        perturbation: str = "uniform",
        num_samples: int = 1,
        target: Target | str = Target.LOGIT,
        detach_source: bool = True,
    ) -> None:
        super().__init__()
        self.epsilon = positive_float("epsilon", epsilon)
        self.perturbation = check_choice("perturbation", perturbation, PERTURBATIONS)
        self.num_samples = check_integer("num_samples", num_samples)
        self.target = Target(target)
        self.detach_source = check_flag("detach_source", detach_source)
        if self.perturbation == "sign" and self.num_samples > 1:
            raise InvalidSettingError(
                f"Expected `num_samples` to be 1 with perturbation='sign', which has one point, "
                f"but got {num_samples}."
            )

    @abstractmethod
    def distance(self, nearby: Tensor, source: Tensor) -> Tensor:
        """The distance of gradients near the samples and at them, ``(M, D)`` -> ``(M,)``."""

    @override
    def detach_from(self, probe: Probe) -> bool:
        if self.detach_source:
            source_gradient(probe, self.target, detached=True)
        return self.detach_source

    @override
    def forward(self, probe: Probe) -> Tensor:
        source, nearby = gradient_pair(
            probe,
            Nearby(
                perturbation=self.perturbation,
                epsilon=self.epsilon,
                num_samples=self.num_samples,
                target=self.target,
                detach_source=self.detach_source,
            ),
        )
        rows = nearby.flatten(0, 1).flatten(1)
        source_rows = source.expand_as(nearby).flatten(0, 1).flatten(1)
        return self.distance(rows, source_rows).view(nearby.shape[:2]).mean(dim=0)


class CosineAlignment(AlignmentTerm):
    r"""The cosine robust criterion: half the cosine distance of nearby gradients.

    .. math:: \frac12 \left(1 - \frac{g^\top g'}{\lVert g \rVert \, \lVert g' \rVert}\right),
        \qquad g = \nabla_x f_y(x), \; g' = \nabla_x f_y(x + \delta)

    From 0 (the same direction) to 1 (the opposite one), without a unit: scaling the model changes
    nothing. A gradient of zero counts as orthogonal, 1/2, and gets no gradient. The settings are
    those of `AlignmentTerm`.

    Differs from the paper: nothing; the source gradient is held constant as in its experiments.

    References:
        joo2023towards
    """

    @override
    def distance(self, nearby: Tensor, source: Tensor) -> Tensor:
        return (1 - functional.cosine_similarity(nearby, source, dim=1, eps=SMALLEST_NORM)) / 2


class L2Alignment(AlignmentTerm):
    r"""The squared distance of the input gradients at a sample and near it.

    .. math:: \lVert \nabla_x f_y(x + \delta) - \nabla_x f_y(x) \rVert_2^2

    Unit: (logits per input unit) squared. It is smaller for smaller gradients; `CosineAlignment`
    does not depend on their size.

    Differs from the paper: its criterion is the norm (``norm="l2"``). Its public code squares the
    norm, and its weights are for the square.

    Args:
        norm: ``"squared_l2"``, or another of `sample_norm`.
        **settings: The settings of `AlignmentTerm`.

    Example:
        >>> from rightreasons.objectives import CosineAlignment, CrossEntropy
        >>> (CrossEntropy() + 6e-4 * L2Alignment() + 1.0 * CosineAlignment()).weights
        {'cross_entropy': 1.0, 'l2_alignment': 0.0006, 'cosine_alignment': 1.0}

    References:
        joo2023towards
    """

    def __init__(self, *, norm: Norm = "squared_l2", **settings: Unpack[AlignmentSettings]) -> None:
        super().__init__(**settings)
        self.norm = check_norm(norm)

    @override
    def distance(self, nearby: Tensor, source: Tensor) -> Tensor:
        return sample_norm(nearby - source, self.norm)


@recipe(L2Alignment)
def l2_alignment(
    task: Term, penalty: L2Alignment, *, weight: Weight = 0.01 * PIXEL_DEVIATION**2
) -> Objective:
    """L2 alignment: input gradients near a sample equal its own.

    Example:
        >>> l2_alignment().weights  # the paper's 0.01 in its units
        {'cross_entropy': 1.0, 'l2_alignment': 0.000625}
    """
    return task + weight * penalty


@recipe(CosineAlignment, L2Alignment)
def alignment(
    task: Term,
    cosine: CosineAlignment,
    l2: L2Alignment,
    *,
    weight: Weight = 1.0,
    l2_weight: Weight = 0.01 * PIXEL_DEVIATION**2,
) -> Objective:
    """Local gradient alignment: l2 and cosine, on one pass near each sample.

    ``weight`` is the weight of the cosine distance, ``l2_weight`` that of the l2 distance.

    Example:
        >>> alignment().weights
        {'cross_entropy': 1.0, 'cosine_alignment': 1.0, 'l2_alignment': 0.000625}
    """
    return task + weight * cosine + l2_weight * l2


class GradientPair(NamedTuple):
    """Gradients at the samples ``(N, *S)`` and at K points near each ``(K, N, *S)``."""

    source: Tensor
    nearby: Tensor


@dataclass(frozen=True)
class Nearby:
    """Which points near the samples to take, and which gradients; equal ones share a pass.

    Args:
        perturbation: One of `PERTURBATIONS`.
        epsilon: The largest step (uniform), the deviation (gaussian), or the step on every feature
            along the sign of the source gradient (sign), in input units.
        num_samples: Number of points for each sample.
        target: The output that is differentiated.
        detach_source: Hold the gradients at the samples constant.
    """

    perturbation: str
    epsilon: float
    num_samples: int
    target: Target
    detach_source: bool

    def shifts(self, source: Tensor) -> Tensor:
        """The steps to those points, ``(K, N, *S)``; drawn from the global random state."""
        shape = (self.num_samples, *source.shape)
        if self.perturbation == "sign":
            return self.epsilon * source.detach().sign().expand(shape)
        drawn = torch.empty(shape, dtype=source.dtype, device=source.device)
        if self.perturbation == "gaussian":
            return self.epsilon * drawn.normal_()
        return drawn.uniform_(-self.epsilon, self.epsilon)


def gradient_pair(probe: Probe, nearby: Nearby) -> GradientPair:
    """Gradients at the samples and near them, computed once for equal settings.

    Both are as at test time. Where layers in train mode mix samples or draw, the gradients at the
    samples take one more pass.
    """

    def compute() -> GradientPair:
        source = source_gradient(probe, nearby.target, detached=nearby.detach_source)
        points = probe.features.detach() + nearby.shifts(source)
        return GradientPair(source, nearby_gradient(probe, points, nearby.target))

    return probe.once(nearby, compute)


def source_gradient(probe: Probe, target: Target, *, detached: bool) -> Tensor:
    """The gradient at the samples, as at test time, to compare with gradients of `Probe.at`.

    Args:
        probe: The pass at the samples.
        target: The output that is differentiated.
        detached: Whether the gradient needs no graph.
    """

    def compute() -> Tensor:
        if probe.depends_on_mode:
            create_graph = probe.create_graph and not detached
            return probe.at(probe.features.detach(), create_graph=create_graph).gradient(target)
        if not detached or not (probe.features.requires_grad and probe.logits.requires_grad):
            gradient = probe.gradient(target)
            return gradient.detach() if detached else gradient
        # A gradient without a graph of its own needs no double backward.
        with torch.enable_grad():
            value = target(probe.logits, probe.batch.y).sum()
        (gradient,) = torch.autograd.grad(value, probe.features, retain_graph=True)
        return gradient

    return probe.once(("source", target, detached), compute)


def nearby_gradient(probe: Probe, points: Tensor, target: Target) -> Tensor:
    """The gradient at K points for each sample, ``(K, N, *S)``, with a graph if the probe has."""
    with fast_second_order() if probe.create_graph else nullcontext():
        return probe.each_at(
            points, lambda moved: moved.gradient(target), create_graph=probe.create_graph
        )
