"""Adversarial attribution manipulation: another explanation for the same prediction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from rightreasons.attacks.ball import NORMS, BallNorm, per_sample
from rightreasons.attacks.output_attack import logits_at_test_time
from rightreasons.core.checks import check_choice, check_fraction, check_integer, positive_float
from rightreasons.core.memory import rows_within_budget
from rightreasons.core.model_modes import innermost
from rightreasons.core.norms import sample_norm
from rightreasons.core.rng import sample_noise
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers import Explainer, postprocessed
from rightreasons.models.surgery import with_softplus
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch, Interval, Target

__all__ = ["AttributionManipulation", "Distance", "Manipulated", "frame_map", "map_distance"]


Distance = Callable[[Tensor, Tensor], Tensor]
"""Maps two tensors of attributions to their distance for each sample, ``(N,)``."""


def map_distance(attribution: Tensor, reference: Tensor) -> Tensor:
    r"""The distance :math:`\lVert h - h_t \rVert_2` of maps that each sum to 1, ``(N,)``.

    Maps are absolute values summed over channels, as the paper's attacker normalises them.

    Example:
        >>> map_distance(torch.tensor([[-3.0, 0.0]]), torch.tensor([[0.0, 7.0]]))
        tensor([1.4142])
    """
    first, second = (postprocessed(one, normalise="l1") for one in (attribution, reference))
    return sample_norm(first - second, "l2")


@final
class AttributionManipulation:
    r"""AAM: a nearby input with the same prediction and the worst attribution.

    .. math:: \min_{\lVert \delta \rVert_p \le \epsilon} \lVert h(x + \delta) - h_t \rVert_2
        \quad\text{s.t.}\quad \arg\max g(x + \delta) = \arg\max g(x)

    by projected gradient descent through the explainer. Without a target map :math:`h_t`, the
    distance from the sample's own attribution is maximised instead. Where the prediction changed,
    the next step goes back towards it. Points with another prediction never become the result.

    Reported distances and predictions are those of the model itself. The gradient is taken of a
    net with Softplus in place of ReLU. Input gradients of a ReLU net are piecewise constant, so
    the attack would have no gradient, and its failure would look like a robust model.

    Differs from the paper: the prediction is constrained; there it may change.

    Args:
        explainer: What is attacked; it must be differentiable.
        epsilon: The ball's radius in input units; 4/255 (LeNet), 2/255 (ResNet-18) in the paper.
        norm: ``"linf"`` takes signed steps, ``"l2"`` steps along the gradient.
        num_steps: Number of steps; 100 in the paper.
        step_size: Length of a step, as a fraction of ``epsilon``.
        distance: Distance between attributions, or between attributions and target.
        valid_range: The smallest and largest value of a feature; None is no limit. A feature
            outside the range may keep its value.
        softplus_beta: Sharpness of the Softplus; None attacks the model as it is. Nets that
            `torch.fx` cannot trace need None, and smooth nets can use it.
        seed: Random seed for the first step of untargeted attacks, which begin beside the sample.
        max_rows: The most samples that are attacked at once; None fits a memory budget.

    Example:
        >>> from rightreasons.explainers import InputGradient
        >>> model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
        >>> attack = AttributionManipulation(explainer=InputGradient(), epsilon=0.5, num_steps=5)
        >>> result = attack(model, torch.rand(3, 2), torch.tensor([0, 1, 1]))
        >>> result.x.shape, result.succeeded.shape
        (torch.Size([3, 2]), torch.Size([3]))

    References:
        ghorbani2019interpretation, dombrowski2019explanations, joo2023towards
    """

    def __init__(
        self,
        *,
        explainer: Explainer,
        epsilon: float,
        norm: BallNorm = "linf",
        num_steps: int = 100,
        step_size: float = 0.1,
        distance: Distance = map_distance,
        valid_range: tuple[float, float] | None = None,
        softplus_beta: float | None = 10.0,
        seed: int = 0,
        max_rows: int | None = None,
    ) -> None:
        if not explainer.is_differentiable:
            raise InvalidSettingError(
                f"Expected a differentiable `explainer` to attack, but got "
                f"{type(explainer).__name__}. Use InputGradient."
            )
        self.explainer = explainer
        self.epsilon = positive_float("epsilon", epsilon)
        self.norm = check_choice("norm", norm, NORMS)
        self.num_steps = check_integer("num_steps", num_steps)
        self.step_size = positive_float("step_size", step_size)
        self.distance = distance
        self.valid_range = valid_range
        self.softplus_beta = softplus_beta
        if softplus_beta is not None:
            self.softplus_beta = positive_float("softplus_beta", softplus_beta)
        self.seed = check_integer("seed", seed, low=0)
        self.max_rows = None if max_rows is None else check_integer("max_rows", max_rows)

    def __call__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        *,
        target: Tensor | None = None,
        index: Tensor | None = None,
    ) -> Manipulated:
        """Attack the attributions of ``y`` at ``x``; the model is left as it was.

        Args:
            model: Gives logits ``(N, K)``.
            x: ``(N, *S)``, floating point.
            y: ``(N,)``: the class of each sample that is explained.
            target: The target map, ``(N, ...)`` or ``(1, ...)``; None is untargeted.
            index: ``(N,)``: the samples' numbers, on which their draws depend; 0, 1, ... if None.
        """
        if not x.is_floating_point():
            raise InvalidBatchError(
                f"Expected floating point `x` to move, but got {x.dtype}. Token ids cannot move."
            )
        core, x = innermost(model), x.detach()
        smooth = core if self.softplus_beta is None else with_softplus(core, self.softplus_beta)
        index = torch.arange(len(x), device=x.device) if index is None else index
        target = None if target is None else target.to(x).expand(len(x), *target.shape[1:])
        most = self.max_rows or rows_within_budget(core, x, "second_order", ceiling=len(x))
        parts = []
        for rows in torch.split(torch.arange(len(x), device=x.device), most):
            targets = None if target is None else target[rows]
            parts.append(self._attack(core, smooth, x[rows], y[rows], targets, index[rows]))
        best, before, after, flipped = (torch.cat(column) for column in zip(*parts, strict=True))
        return Manipulated(best, before, after, flipped, is_targeted=target is not None)

    def _attack(
        self,
        model: nn.Module,
        smooth: nn.Module,
        x: Tensor,
        y: Tensor,
        target: Tensor | None,
        index: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        clean = self.explainer(model, x, y)
        reference = clean if target is None else target
        smooth_reference = reference
        if target is None and smooth is not model:
            smooth_reference = self.explainer(smooth, x, y)
        is_targeted = target is not None
        best, flipped = self._search(model, smooth, x, y, smooth_reference, is_targeted, index)
        after = self.distance(self.explainer(model, best, y), reference)
        return best, self.distance(clean, reference), after, flipped

    def _search(
        self,
        model: nn.Module,
        smooth: nn.Module,
        x: Tensor,
        y: Tensor,
        reference: Tensor,
        is_targeted: bool,
        index: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The best point that keeps the prediction, and whether only the sample itself keeps it."""
        predicted = logits_at_test_time(model, x, y).argmax(dim=1)
        limits = self._limits(x)
        point = x if is_targeted else self._draw_start(x, limits, index)
        best = x
        smallest = torch.full_like(x.flatten(1)[:, 0], torch.inf if is_targeted else 0.0)
        tried = torch.zeros_like(predicted, dtype=torch.bool)
        kept = tried
        for step in range(self.num_steps + 1):
            is_last = step == self.num_steps
            value, slope = self._objective(smooth, point, y, reference, is_targeted, not is_last)
            stays = logits_at_test_time(model, point, y).argmax(dim=1) == predicted
            moved = (point != x).flatten(1).any(dim=1)
            tried, kept = tried | moved, kept | (moved & stays)
            better = stays & (value < smallest)
            best = torch.where(per_sample(better, x), point, best)
            smallest = torch.where(better, value, smallest)
            if is_last:
                break
            if not bool(stays.all()):
                slope[~stays] = _loss_gradient(model, point[~stays], predicted[~stays])
            point = self._step(point, slope, x, limits)
        return best, tried & ~kept

    def _objective(
        self,
        smooth: nn.Module,
        point: Tensor,
        y: Tensor,
        reference: Tensor,
        is_targeted: bool,
        with_slope: bool,
    ) -> tuple[Tensor, Tensor]:
        """The value to minimise at each point, and its gradient."""
        point = point.detach().requires_grad_(with_slope)
        with torch.set_grad_enabled(with_slope):
            attribution = self.explainer(smooth, point, y, create_graph=with_slope)
            value = self.distance(attribution, reference) * (1 if is_targeted else -1)
            slope = torch.zeros_like(point)
            if value.requires_grad:
                (gradient,) = torch.autograd.grad(value.sum(), point, allow_unused=True)
                slope = slope if gradient is None else gradient
        return value.detach(), slope

    def _step(self, point: Tensor, slope: Tensor, x: Tensor, limits: Interval | None) -> Tensor:
        stride = self.step_size * self.epsilon
        if self.norm == "linf":
            move = (point - stride * slope.sign() - x).clamp(-self.epsilon, self.epsilon)
        else:
            length = per_sample(sample_norm(slope, "l2"), x)
            move = point - stride * slope / torch.where(length == 0, 1, length) - x
            length = per_sample(sample_norm(move, "l2"), x)
            move = move * (self.epsilon / length.clamp(min=self.epsilon))
        moved = x + move
        return moved if limits is None else moved.clamp(*limits)

    def _draw_start(self, x: Tensor, limits: Interval | None, index: Tensor) -> Tensor:
        """One step in a random direction: at the sample itself the distance has no gradient."""
        noise = sample_noise(index, x.shape[1:], num_draws=1, seed=self.seed, kind="normal")
        return self._step(x, noise[0].to(x), x, limits)

    def _limits(self, x: Tensor) -> Interval | None:
        if self.valid_range is None:
            return None
        low, high = self.valid_range
        return Interval(x.clamp(max=low), x.clamp(min=high))


@dataclass(frozen=True)
class Manipulated:
    """The result of an attack on attributions.

    Args:
        x: ``(N, *S)``: the best input tried that keeps the prediction; the sample itself if none.
        before: ``(N,)``: the distance of the sample's attribution from the target; 0 without one.
        after: ``(N,)``: the distance of the attribution at ``x`` from the target, or from the
            sample's own attribution without one.
        flipped: ``(N,)``: whether every input that was tried changed the prediction.
        is_targeted: Whether there was a target map.
    """

    x: Tensor
    before: Tensor
    after: Tensor
    flipped: Tensor
    is_targeted: bool

    @property
    def succeeded(self) -> Tensor:
        """Whether the attribution changed as intended and the prediction stayed, ``(N,)``."""
        moved = self.after < self.before if self.is_targeted else self.after > self.before
        return moved & ~self.flipped


def frame_map(height: int, width: int, *, border: float = 5 / 32) -> Tensor:
    """A map that is 1 along the edges and 0 inside, ``(1, 1, height, width)``.

    A frame overlaps little with the object, which is mostly in the middle.

    Args:
        height: Height of the images.
        width: Width of the images.
        border: Thickness of the frame, as a fraction of the shorter side, rounded to whole pixels
            and at least one; 5 of 32 pixels in the paper.

    Example:
        >>> frame_map(3, 4)[0, 0]
        tensor([[1., 1., 1., 1.],
                [1., 0., 0., 1.],
                [1., 1., 1., 1.]])

    References:
        joo2023towards
    """
    thickness = max(1, round(check_fraction("border", border, below_one=True) * min(height, width)))
    frame = torch.ones(1, 1, height, width)
    frame[..., thickness : height - thickness, thickness : width - thickness] = 0
    return frame


def _loss_gradient(model: nn.Module, x: Tensor, predicted: Tensor) -> Tensor:
    """The gradient of the loss of the sample's own prediction: steps go against it."""
    batch = Batch.trusted(x=x.detach(), y=predicted)
    probe = Probe.at_test_time(model, batch, needs_gradient=True, create_graph=False)
    return probe.gradient(Target.LOSS)
