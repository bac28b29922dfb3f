"""Robust attributions over a ball: IGA, IG-NORM and IG-SUM-NORM."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.core.checks import (
    check_integer,
    check_range,
    positive_float,
)
from rightreasons.core.norms import sample_norm
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.alignment import SMALLEST_NORM
from rightreasons.objectives.objective import Objective, Term, Weight
from rightreasons.objectives.recipe import recipe
from rightreasons.probe.probe import Probe
from rightreasons.types import Interval, Target

__all__ = [
    "IGA",
    "BallTerm",
    "IGNorm",
    "IGSum",
    "PathAttribution",
    "ig_norm",
    "ig_sum",
    "iga",
    "path_attribution",
]


class PathAttribution(NamedTuple):
    """What each feature adds to the loss ``(N, *S)``, and the loss's rise ``(N,)``."""

    parts: Tensor
    rise: Tensor


def path_attribution(
    probe: Probe, points: Tensor, *, num_segments: int, create_graph: bool
) -> PathAttribution:
    r"""Integrated gradients from the samples to ``points``, by the trapezoid rule.

    .. math:: (x' - x) \odot \int_0^1 \nabla_x \ell(x + \alpha (x' - x)) \, d\alpha

    The parts add up to the rise :math:`\ell(x') - \ell(x)`, as far as the segments resolve the
    way. All points of the way go through the model in one stacked pass, as at test time.

    Args:
        probe: At the samples.
        points: ``(N, *S)``; may carry a graph.
        num_segments: Of the trapezoid rule.
        create_graph: Whether the result must reach ``points`` and the weights.
    """
    start = probe.features.detach()
    way = points - start
    shares = torch.linspace(0, 1, num_segments + 1, dtype=way.dtype, device=way.device)
    places = start + shares.view(-1, *(1,) * way.ndim) * way

    def slope_and_loss(moved: Probe) -> Tensor:
        loss = Target.LOSS(moved.logits, moved.batch.y)
        return torch.cat([moved.gradient(Target.LOSS).flatten(1), loss[:, None]], dim=1)

    measured = probe.each_at(places, slope_and_loss, create_graph=create_graph)
    slopes, losses = measured[..., :-1], measured[..., -1]
    mean = (slopes[1:] + slopes[:-1]).sum(dim=0) / (2 * num_segments)
    return PathAttribution(way * mean.view_as(way), losses[-1] - losses[0])


class BallTerm(Term):
    r"""A criterion at :math:`x' \approx \arg\max_{\lVert x' - x \rVert_\infty \le \epsilon}` of it.

    The search begins at a random point of the ball and climbs the criterion itself by signed
    steps. Its end is then held constant, and the criterion there is differentiated.

    Args:
        epsilon: The ball's radius in input units, on every feature.
        num_steps: Steps of the search.
        step_size: As a share of the ball's width (2 epsilon).
        valid_range: Smallest and largest value of a feature. None takes the data's, if `fit` or
            ``prepare`` saw them, and is no limit otherwise.
    """

    needs_gradient = True

    def __init__(
        self,
        *,
        epsilon: float,
        num_steps: int,
        step_size: float,
        valid_range: tuple[float, float] | None,
    ) -> None:
        super().__init__()
        self.epsilon = positive_float("epsilon", epsilon)
        self.num_steps = check_integer("num_steps", num_steps, low=0)
        self.step_size = positive_float("step_size", step_size)
        self.valid_range = None if valid_range is None else check_range(valid_range)
        self._range = self.valid_range

    @abstractmethod
    def criterion(self, probe: Probe, points: Tensor, *, create_graph: bool) -> Tensor:
        """What the search climbs and the term gives: at ``points`` ``(N, *S)`` -> ``(N,)``."""

    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        """See `Term.prepare`."""
        del num_passes
        self._range = self.valid_range or data.card.valid_range

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        lower, upper = self._ball(probe.features.detach())
        stride = 2 * self.epsilon * self.step_size
        point = torch.lerp(lower, upper, torch.rand_like(lower))
        for _ in range(self.num_steps):
            point = point.requires_grad_()
            with torch.enable_grad():
                slope = _slope(self.criterion(probe, point, create_graph=True), point)
            point = (point.detach() + stride * slope.sign()).clamp(lower, upper)
        return self.criterion(probe, point, create_graph=probe.create_graph)

    def _ball(self, x: Tensor) -> Interval:
        lower, upper = x - self.epsilon, x + self.epsilon
        if self._range is not None:
            low, high = self._range
            # a feature outside the range may stay where it is
            lower, upper = lower.clamp_min(low).minimum(x), upper.clamp_max(high).maximum(x)
        return Interval(lower, upper)


def _slope(values: Tensor, point: Tensor) -> Tensor:
    if not values.requires_grad:  # a gradient that does not change, as a linear net's
        return torch.zeros_like(point)
    (slope,) = torch.autograd.grad(values.sum(), point, allow_unused=True)
    return torch.zeros_like(point) if slope is None else slope


class IGA(BallTerm):
    r"""Input-gradient alignment: a triplet of image, own gradient and the rival's.

    .. math:: \max_{x'} \log\left(1 + e^{d(g^y(x'), x) - d(g^j(x'), x)}\right), \qquad
        d(a, b) = 1 - \cos(a, b)

    with :math:`g^k = \nabla_x f_k` and j the largest logit other than the label's at x'. At most
    :math:`\log(1 + e^2) \approx 2.13`, without a unit. The cosine with the image depends on where
    its zero is: black, with pixels in [0, 1].

    Differs from the paper: the penalty is taken at x' alone (its public code takes the worse of x
    and x'), and the task's loss stays at x, where the paper has it at x' too. Its images are
    normalised, so that their zero is the mean.

    Args:
        epsilon: See `BallTerm`; 8/255 in the paper.
        num_steps: See `BallTerm`; 3 in the paper.
        step_size: See `BallTerm`; 5/255 in the paper.
        valid_range: See `BallTerm`.

    References:
        singh2020attributional
    """

    def __init__(
        self,
        *,
        epsilon: float = 8 / 255,
        num_steps: int = 3,
        step_size: float = 0.3125,
        valid_range: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, num_steps=num_steps, step_size=step_size, valid_range=valid_range
        )

    def criterion(self, probe: Probe, points: Tensor, *, create_graph: bool) -> Tensor:
        """See `BallTerm.criterion`."""
        moved = probe.at(points, create_graph=create_graph)
        image = probe.features.detach().flatten(1)
        own = moved.gradient(Target.LOGIT).flatten(1)
        rival = own - moved.gradient(Target.MARGIN).flatten(1)  # margin = own - rival
        likeness = [
            functional.cosine_similarity(gradient, image, dim=1, eps=SMALLEST_NORM)
            for gradient in (own, rival)
        ]
        return functional.softplus(likeness[1] - likeness[0])


class IGNorm(BallTerm):
    r"""The largest integrated gradients of the loss towards a point near the sample.

    .. math:: \max_{\lVert x' - x \rVert_\infty \le \epsilon} \lVert \mathrm{IG}^\ell(x, x')
        \rVert_1

    where :math:`\mathrm{IG}^\ell(x, x')` splits the rise of the loss from x to x' into features,
    see `path_attribution`. Unit: nats.

    Differs from the paper: the integral is a trapezoid sum of few segments, in the search and in
    the penalty; the paper's code has 5 in the search and 50 in the penalty.

    Args:
        num_segments: Of the trapezoid rule.
        epsilon: See `BallTerm`; 8/255 in the paper, for colour images.
        num_steps: See `BallTerm`; 7 in the paper.
        step_size: See `BallTerm`; 2/255 in the paper.
        valid_range: See `BallTerm`.

    References:
        chen2019robust
    """

    def __init__(
        self,
        *,
        epsilon: float = 8 / 255,
        num_segments: int = 5,
        num_steps: int = 7,
        step_size: float = 0.125,
        valid_range: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, num_steps=num_steps, step_size=step_size, valid_range=valid_range
        )
        self.num_segments = check_integer("num_segments", num_segments)

    def criterion(self, probe: Probe, points: Tensor, *, create_graph: bool) -> Tensor:
        """See `BallTerm.criterion`."""
        attribution = path_attribution(
            probe, points, num_segments=self.num_segments, create_graph=create_graph
        )
        return sample_norm(attribution.parts, "l1")


class IGSum(BallTerm):
    r"""The largest rise of the loss near the sample, together with how it is spread.

    .. math:: \max_{\lVert x' - x \rVert_\infty \le \epsilon} \ell(x') - \ell(x)
        + \beta \lVert \mathrm{IG}^\ell(x, x') \rVert_1

    The rise is the sum of the integrated gradients. Added to cross-entropy with weight 1 it is
    the paper's IG-SUM-NORM, :math:`\ell(x') + \beta \lVert \mathrm{IG} \rVert_1`; with
    :math:`\beta = 0`, adversarial training. Unit: nats.

    Differs from the paper: as `IGNorm`. The rise is the exact one, not the integral's.

    Args:
        norm_weight: :math:`\beta`, at least 0; 1 in the paper's code for traffic signs.
        num_segments: See `IGNorm`.
        epsilon: See `BallTerm`; 8/255 in the paper, for colour images.
        num_steps: See `BallTerm`; 7 in the paper.
        step_size: See `BallTerm`; 2/255 in the paper.
        valid_range: See `BallTerm`.

    References:
        chen2019robust
    """

    def __init__(
        self,
        *,
        norm_weight: float = 1.0,
        epsilon: float = 8 / 255,
        num_segments: int = 5,
        num_steps: int = 7,
        step_size: float = 0.125,
        valid_range: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, num_steps=num_steps, step_size=step_size, valid_range=valid_range
        )
        if isinstance(norm_weight, bool) or not 0 <= norm_weight < float("inf"):
            raise InvalidSettingError(
                f"Expected `norm_weight` to be a finite number of at least 0, but got "
                f"{norm_weight!r}."
            )
        self.norm_weight = float(norm_weight)
        self.num_segments = check_integer("num_segments", num_segments)

    def criterion(self, probe: Probe, points: Tensor, *, create_graph: bool) -> Tensor:
        """See `BallTerm.criterion`."""
        attribution = path_attribution(
            probe, points, num_segments=self.num_segments, create_graph=create_graph
        )
        return attribution.rise + self.norm_weight * sample_norm(attribution.parts, "l1")


@recipe(IGA)
def iga(task: Term, penalty: IGA, *, weight: Weight = 0.5) -> Objective:
    """IGA: the label's gradient looks more like the image than the runner-up's.

    Example:
        >>> iga().weights
        {'cross_entropy': 1.0, 'iga': 0.5}
    """
    return task + weight * penalty


@recipe(IGNorm)
def ig_norm(task: Term, penalty: IGNorm, *, weight: Weight = 0.1) -> Objective:
    """IG-NORM: small integrated gradients of the loss towards every point near a sample.

    Example:
        >>> ig_norm().weights
        {'cross_entropy': 1.0, 'ig_norm': 0.1}
    """
    return task + weight * penalty


@recipe(IGSum)
def ig_sum(task: Term, penalty: IGSum, *, weight: Weight = 1.0) -> Objective:
    """IG-SUM-NORM: adversarial training and small integrated gradients together.

    Example:
        >>> ig_sum().weights
        {'cross_entropy': 1.0, 'ig_sum': 1.0}
    """
    return task + weight * penalty
