"""Robust attributions over a ball around each sample: IGA, IG-NORM and IG-SUM-NORM."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import TypedDict, Unpack, override

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


class BallSettings(TypedDict, total=False):
    """Settings of `BallTerm` that its members pass on."""

    epsilon: float
    num_steps: int
    step_size: float
    valid_range: tuple[float, float] | None


class BallTerm(Term):
    r"""The largest value of a criterion c near the sample, as far as a search finds it.

    .. math:: \max_{\lVert x' - x \rVert_\infty \le \epsilon} c(x')

    The search begins at a random point of the ball and climbs the criterion by signed steps. Its
    end is then held constant, and the criterion there is differentiated.

    Args:
        epsilon: The ball's radius in input units, on every feature.
        num_steps: Number of steps of the search.
        step_size: Length of a step, as a share of the ball's width (2 epsilon).
        valid_range: Smallest and largest value of a feature. None takes the range of the data from
            `fit` or ``prepare``, and is no limit without them.
    """

    needs_gradient = True

    def __init__(
        self,
        *,
        epsilon: float = 8 / 255,
        num_steps: int = 7,
        step_size: float = 0.125,
        valid_range: tuple[float, float] | None = None,
    ) -> None:
        super().__init__()
        self.epsilon = positive_float("epsilon", epsilon)
        self.num_steps = check_integer("num_steps", num_steps, low=0)
        self.step_size = positive_float("step_size", step_size)
        self.valid_range = None if valid_range is None else check_range(valid_range)
        self._range = self.valid_range

    @abstractmethod
    def criterion(self, probe: Probe, points: Tensor, *, create_graph: bool) -> Tensor:
        """The value that is searched for and penalised: at ``points`` ``(N, *S)`` -> ``(N,)``."""

    @override
    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        del num_passes
        self._range = self.valid_range or data.card.feature_range

    @override
    def forward(self, probe: Probe) -> Tensor:
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
            # A feature outside the range may stay where it is.
            lower, upper = lower.clamp_min(low).minimum(x), upper.clamp_max(high).maximum(x)
        return Interval(lower, upper)


def _slope(values: Tensor, point: Tensor) -> Tensor:
    if not values.requires_grad:  # a gradient that does not change, as a linear net's
        return torch.zeros_like(point)
    (slope,) = torch.autograd.grad(values.sum(), point, allow_unused=True)
    return torch.zeros_like(point) if slope is None else slope


class IGA(BallTerm):
    r"""Input-gradient alignment: the image is nearer to the label's gradient than to the rival's.

    .. math:: \max_{x'} \log\left(1 + e^{d(g^y(x'), x) - d(g^j(x'), x)}\right), \qquad
        d(a, b) = 1 - \cos(a, b)

    with :math:`g^k = \nabla_x f_k` and j the largest logit other than the label's at x'. At most
    :math:`\log(1 + e^2) \approx 2.13`, without a unit. The cosine with the image depends on where
    its zero is: black, with pixels in [0, 1].

    Differs from the paper: the penalty is taken at x' alone, where its public code takes the worse
    of x and x'. The task's loss stays at x, where the paper has it at x' too. The paper's images
    are normalised, so that their zero is the mean.

    Args:
        epsilon: The ball's radius; 8/255 in the paper.
        num_steps: Number of steps of the search; 3 in the paper.
        step_size: Length of a step, as a share of the ball's width; 5/255 in the paper, as here.
        valid_range: Smallest and largest value of a feature; None as in `BallTerm`.

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

    @override
    def criterion(self, probe: Probe, points: Tensor, *, create_graph: bool) -> Tensor:
        moved = probe.at(points, create_graph=create_graph)
        image = probe.features.detach().flatten(1)
        label = moved.gradient(Target.LOGIT).flatten(1)
        rival = label - moved.gradient(Target.MARGIN).flatten(1)  # margin = label - rival
        of_label, of_rival = (
            functional.cosine_similarity(gradient, image, dim=1, eps=SMALLEST_NORM)
            for gradient in (label, rival)
        )
        return functional.softplus(of_rival - of_label)


@recipe(IGA)
def iga(task: Term, penalty: IGA, *, weight: Weight = 0.5) -> Objective:
    """IGA: the label's gradient looks more like the image than the runner-up's.

    Example:
        >>> iga().weights
        {'cross_entropy': 1.0, 'iga': 0.5}
    """
    return task + weight * penalty


class PathAttribution(NamedTuple):
    """The part of each feature in the rise of the loss ``(N, *S)``, and the rise ``(N,)``."""

    parts: Tensor
    rise: Tensor


def path_attribution(
    probe: Probe, points: Tensor, *, num_segments: int, create_graph: bool
) -> PathAttribution:
    r"""Integrated gradients from the samples to ``points``, by the trapezoid rule.

    .. math:: (x' - x) \odot \int_0^1 \nabla_x \ell(x + \alpha (x' - x)) \, d\alpha

    The parts add up to the rise :math:`\ell(x') - \ell(x)`, up to the error of the trapezoid rule.
    All points of the path go through the model in one stacked pass, as at test time.

    Args:
        probe: The pass at the samples.
        points: Ends of the paths ``(N, *S)``; they may have a graph.
        num_segments: Number of segments of the trapezoid rule.
        create_graph: Whether the result has a graph to ``points`` and the weights.
    """
    start = probe.features.detach()
    path = points - start
    fractions = torch.linspace(0, 1, num_segments + 1, dtype=path.dtype, device=path.device)
    stops = start + fractions.view(-1, *(1,) * path.ndim) * path

    def slope_and_loss(moved: Probe) -> Tensor:
        loss = Target.LOSS(moved.logits, moved.batch.y)
        return torch.cat([moved.gradient(Target.LOSS).flatten(1), loss[:, None]], dim=1)

    measured = probe.each_at(stops, slope_and_loss, create_graph=create_graph)
    slopes, losses = measured[..., :-1], measured[..., -1]
    mean = (slopes[1:] + slopes[:-1]).sum(dim=0) / (2 * num_segments)
    return PathAttribution(path * mean.view_as(path), losses[-1] - losses[0])


class IGNorm(BallTerm):
    r"""The largest integrated gradients of the loss towards a point near the sample.

    .. math:: \max_{\lVert x' - x \rVert_\infty \le \epsilon} \lVert \mathrm{IG}^\ell(x, x')
        \rVert_1

    where :math:`\mathrm{IG}^\ell(x, x')` splits the rise of the loss from x to x' into features,
    see `path_attribution`. Unit: nats.

    Differs from the paper: the integral is a trapezoid sum of few segments, in the search and in
    the penalty. The paper's code has 5 in the search and 50 in the penalty.

    Args:
        num_segments: Number of segments of the trapezoid rule.
        **settings: The settings of `BallTerm`. The paper has a radius of 8/255 for colour images
            and 7 steps of 2/255, as here.

    References:
        chen2019robust
    """

    def __init__(self, *, num_segments: int = 5, **settings: Unpack[BallSettings]) -> None:
        super().__init__(**settings)
        self.num_segments = check_integer("num_segments", num_segments)

    @override
    def criterion(self, probe: Probe, points: Tensor, *, create_graph: bool) -> Tensor:
        attribution = path_attribution(
            probe, points, num_segments=self.num_segments, create_graph=create_graph
        )
        return sample_norm(attribution.parts, "l1")


@recipe(IGNorm)
def ig_norm(task: Term, penalty: IGNorm, *, weight: Weight = 0.1) -> Objective:
    """IG-NORM: small integrated gradients of the loss towards every point near a sample.

    Example:
        >>> ig_norm().weights
        {'cross_entropy': 1.0, 'ig_norm': 0.1}
    """
    return task + weight * penalty


class IGSum(BallTerm):
    r"""The largest rise of the loss near the sample, and the norm of its attribution.

    .. math:: \max_{\lVert x' - x \rVert_\infty \le \epsilon} \ell(x') - \ell(x)
        + \beta \lVert \mathrm{IG}^\ell(x, x') \rVert_1

    The rise is the sum of the integrated gradients. Added to cross-entropy with weight 1 it is
    the paper's IG-SUM-NORM, :math:`\ell(x') + \beta \lVert \mathrm{IG} \rVert_1`; with
    :math:`\beta = 0`, adversarial training. Unit: nats.

    Differs from the paper: the integral, as in `IGNorm`. The rise is exact, not the integral's.

    Args:
        norm_weight: :math:`\beta`, at least 0; 1 in the paper's code for traffic signs.
        num_segments: Number of segments of the trapezoid rule.
        **settings: The settings of `BallTerm`, as in `IGNorm`.

    References:
        chen2019robust
    """

    def __init__(
        self,
        *,
        norm_weight: float = 1.0,
        num_segments: int = 5,
        **settings: Unpack[BallSettings],
    ) -> None:
        super().__init__(**settings)
        if isinstance(norm_weight, bool) or not 0 <= norm_weight < float("inf"):
            raise InvalidSettingError(
                f"Expected `norm_weight` to be a finite number of at least 0, but got "
                f"{norm_weight!r}."
            )
        self.norm_weight = float(norm_weight)
        self.num_segments = check_integer("num_segments", num_segments)

    @override
    def criterion(self, probe: Probe, points: Tensor, *, create_graph: bool) -> Tensor:
        attribution = path_attribution(
            probe, points, num_segments=self.num_segments, create_graph=create_graph
        )
        return attribution.rise + self.norm_weight * sample_norm(attribution.parts, "l1")


@recipe(IGSum)
def ig_sum(task: Term, penalty: IGSum, *, weight: Weight = 1.0) -> Objective:
    """IG-SUM-NORM: adversarial training and small integrated gradients together.

    Example:
        >>> ig_sum().weights
        {'cross_entropy': 1.0, 'ig_sum': 1.0}
    """
    return task + weight * penalty
