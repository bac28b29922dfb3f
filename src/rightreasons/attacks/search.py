"""The worst gradient or value in a box, by random draws and by gradient ascent."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rightreasons.core.norms import Norm, sample_norm
from rightreasons.probe.masked import MaskedFeatures
from rightreasons.types import Interval, Target

__all__ = ["GradientSize", "climb", "draw_points", "draw_worst_point", "worst_value"]


_CACHE_ROWS = 1024
"""Rows of a stacked pass whose activations still fit the caches of a processor."""


@dataclass(frozen=True)
class GradientSize:
    r"""The size of a masked gradient: :math:`\lVert m \odot (g - g_0) \rVert`.

    Args:
        mask: The mask, ``(N, M)``.
        norm: The norm, one of those of `sample_norm`.
        reference: The gradient :math:`g_0`, ``(N, M)``; None is zero.
    """

    mask: Tensor
    norm: Norm
    reference: Tensor | None = None

    def __call__(self, gradient: Tensor) -> Tensor:
        """The size of each row of ``gradient``, ``(K * N, M) -> (K * N,)``, copy after copy."""
        copies = gradient.view(len(gradient) // len(self.mask), *self.mask.shape)
        if self.reference is not None:
            copies = copies - self.reference
        return sample_norm((copies * self.mask).flatten(0, 1), self.norm)

    def detached(self) -> GradientSize:
        """The same without the graph of its reference."""
        reference = None if self.reference is None else self.reference.detach()
        return GradientSize(self.mask, self.norm, reference)


def draw_points(interval: Interval, num_samples: int) -> Tensor:
    """Draw points uniformly from a box, ``(K, N, M)``."""
    lower, upper = interval
    noise = torch.rand(num_samples, *lower.shape, dtype=lower.dtype, device=lower.device)
    return torch.lerp(lower, upper, noise)


def draw_worst_point(
    masked: MaskedFeatures,
    interval: Interval,
    size: GradientSize,
    *,
    target: Target,
    num_samples: int,
) -> Tensor:
    """Draw ``num_samples`` points for each sample; the one with the largest gradient.

    The graph of each pass is freed before the next.

    Returns:
        ``(N, M)``.
    """
    points = draw_points(interval, num_samples)
    if num_samples == 1:
        return points[0]
    size = size.detached()
    num_rows = points.shape[1]
    num_stacked = max(1, masked.rows_for("gradients", _CACHE_ROWS) // max(1, num_rows))
    sizes = [
        size(masked.at(some.flatten(0, 1)).gradient(target)).detach()
        for some in torch.split(points, num_stacked)
    ]
    worst = torch.cat(sizes).view(num_samples, num_rows).argmax(dim=0)
    return points[worst, torch.arange(num_rows, device=worst.device)]


def climb(
    masked: MaskedFeatures,
    interval: Interval,
    size: GradientSize,
    start: Tensor,
    *,
    target: Target,
    num_steps: int,
    step_size: float,
) -> Tensor:
    r"""Increase the size of the gradient by signed steps; the best point on the way.

    .. math:: v \leftarrow \Pi\left(v + \alpha (u - l) \, \mathrm{sign}\, \nabla_v
        \lVert m \odot \nabla_x t \rVert\right)

    Args:
        masked: The model as a function of its masked features.
        interval: The box.
        size: What is maximised.
        start: The first point, ``(N, M)``.
        target: The target whose gradient it is.
        num_steps: Number of steps.
        step_size: :math:`\alpha`, as a fraction of the box's width on each feature.

    Returns:
        ``(N, M)``.
    """
    size = size.detached()
    lower, upper = interval
    stride = step_size * (upper - lower)
    point, best = start, start
    largest: Tensor | None = None
    for _ in range(num_steps):
        point = point.detach().requires_grad_()
        with torch.enable_grad():
            gradient = masked.at(point).gradient(target, create_graph=True)
            sizes = size(gradient)
            slope = _slope(sizes, point)
        best, largest = _better(point.detach(), sizes.detach(), best, largest)
        if not bool(slope.any()):  # all points stay where they are, as in a piecewise linear net
            return best
        point = torch.addcmul(point.detach(), stride, slope.sign()).clamp(lower, upper)
    sizes = size(masked.at(point).gradient(target)).detach()
    return _better(point, sizes, best, largest)[0]


def worst_value(
    masked: MaskedFeatures,
    interval: Interval,
    *,
    target: Target = Target.LOSS,
    largest: bool = True,
    num_steps: int = 10,
    step_size: float = 0.25,
    num_restarts: int = 1,
    known: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""The point of a box where signed steps find ``target`` largest.

    .. math:: v \leftarrow \Pi\left(v \pm \alpha (u - l) \, \mathrm{sign}\, \nabla_v t\right)

    Projected gradient ascent from random starts (Madry et al. 2018), inside the masks. Every point
    on the way counts. The first step of each start goes to an end of the box.

    Args:
        masked: The model as a function of its masked features.
        interval: The box.
        target: What is maximised.
        largest: Whether to search for the largest value, or the smallest.
        num_steps: Number of steps from each start.
        step_size: :math:`\alpha`, as a fraction of the box's width on each feature; it shrinks
            linearly to a tenth.
        num_restarts: Number of starts.
        known: The target at the samples ``(N,)``; None computes it.

    Returns:
        The points ``(N, M)`` and the values of the target there ``(N,)``.
    """
    lower, upper = interval
    sign = 1.0 if largest else -1.0
    best = masked.values.detach()
    if known is None:
        known = target(masked.at(best).logits, masked.y)
    best_values = sign * known.detach()
    for point in draw_points(interval, num_restarts):
        for step in range(num_steps + 1):
            is_last = step == num_steps  # nobody goes on from the last point: it needs no slope
            point = point.detach().requires_grad_(not is_last)
            with torch.set_grad_enabled(not is_last):
                values = sign * target(masked.at(point).logits, masked.y)
            better = values.detach() > best_values
            best = torch.where(better[:, None], point.detach(), best)
            best_values = torch.where(better, values.detach(), best_values)
            if is_last:
                break
            (slope,) = torch.autograd.grad(values, point, torch.ones_like(values))
            fraction = step_size * (1 - 0.9 * step / max(1, num_steps)) if step else 1.0
            stride = fraction * (upper - lower)
            point = torch.addcmul(point.detach(), stride, slope.sign()).clamp(lower, upper)
    return best, sign * best_values


def _slope(sizes: Tensor, point: Tensor) -> Tensor:
    if not sizes.requires_grad:  # the gradient is constant, as a linear net's
        return torch.zeros_like(point)
    (slope,) = torch.autograd.grad(sizes.sum(), point, allow_unused=True)
    return torch.zeros_like(point) if slope is None else slope


def _better(
    point: Tensor, sizes: Tensor, best: Tensor, largest: Tensor | None
) -> tuple[Tensor, Tensor]:
    if largest is None:
        return point, sizes
    better = sizes > largest
    return torch.where(better[:, None], point, best), torch.maximum(sizes, largest)
