"""The worst gradient or value in a box, by drawing and by climbing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rightreasons.core.norms import Norm, sample_norm
from rightreasons.probe.masked import MaskedFeatures
from rightreasons.types import Interval, Target

__all__ = ["GradientSize", "climbed", "drawn_points", "worst_drawn", "worst_value"]


@dataclass(frozen=True)
class GradientSize:
    r"""How large a masked gradient is: :math:`\lVert m \odot (g - g_0) \rVert`.

    Args:
        mask: ``(N, M)``.
        norm: See `sample_norm`.
        reference: :math:`g_0`, ``(N, M)``; None is zero.
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
        kept = None if self.reference is None else self.reference.detach()
        return GradientSize(self.mask, self.norm, kept)


def drawn_points(interval: Interval, num_samples: int) -> Tensor:
    """Points drawn uniformly from a box, ``(K, N, M)``."""
    lower, upper = interval
    noise = torch.rand(num_samples, *lower.shape, dtype=lower.dtype, device=lower.device)
    return torch.lerp(lower, upper, noise)


def worst_drawn(
    masked: MaskedFeatures,
    interval: Interval,
    size: GradientSize,
    *,
    target: Target,
    num_samples: int,
) -> Tensor:
    """For each sample the one of ``num_samples`` drawn points with the largest gradient.

    No graph is built that outlives a pass.

    Returns:
        ``(N, M)``.
    """
    points = drawn_points(interval, num_samples)
    if num_samples == 1:
        return points[0]
    size = size.detached()
    num_rows = points.shape[1]
    together = max(1, (masked.max_rows or _COMFORTABLE_ROWS) // max(1, num_rows))
    sizes = [
        size(masked.at(some.flatten(0, 1)).gradient(target)).detach()
        for some in torch.split(points, together)
    ]
    worst = torch.cat(sizes).view(num_samples, num_rows).argmax(dim=0)
    return points[worst, torch.arange(num_rows, device=worst.device)]


def climbed(
    masked: MaskedFeatures,
    interval: Interval,
    size: GradientSize,
    start: Tensor,
    *,
    target: Target,
    num_steps: int,
    step_size: float,
) -> Tensor:
    r"""Climb the size of the gradient itself by signed steps, and keep the best point passed.

    .. math:: v \leftarrow \Pi\left(v + \alpha (u - l) \, \mathrm{sign}\, \nabla_v
        \lVert m \odot \nabla_x t \rVert\right)

    Args:
        masked: The model as a function of its masked features.
        interval: The box.
        size: What grows.
        start: Where to begin, ``(N, M)``.
        target: Whose gradient it is.
        num_steps: How many steps.
        step_size: :math:`\alpha`, as a share of the box's width on each feature.

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
        point = torch.addcmul(point.detach(), stride, slope.sign()).clamp(lower, upper)
    sizes = size(masked.at(point).gradient(target)).detach()
    return _better(point, sizes, best, largest)[0]


_COMFORTABLE_ROWS = 1024
"""Rows of a stacked pass whose activations still fit the caches of a processor."""


def _slope(sizes: Tensor, point: Tensor) -> Tensor:
    if not sizes.requires_grad:  # a gradient that does not change, as a linear net's
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


def worst_value(
    masked: MaskedFeatures,
    interval: Interval,
    *,
    target: Target = Target.LOSS,
    largest: bool = True,
    num_steps: int = 10,
    step_size: float = 0.25,
    num_restarts: int = 1,
) -> tuple[Tensor, Tensor]:
    r"""The point of a box where ``target`` is largest, as far as signed steps find it.

    .. math:: v \leftarrow \Pi\left(v \pm \alpha (u - l) \, \mathrm{sign}\, \nabla_v t\right)

    Projected gradient ascent from random starts (Madry et al. 2018), inside the masks. Every point
    on the way counts, the ends of the box that the first slope points to as well.

    Args:
        masked: The model as a function of its masked features.
        interval: The box.
        target: What grows.
        largest: Whether to look for the largest value, or the smallest.
        num_steps: Steps from each start.
        step_size: :math:`\alpha`, as a share of the box's width on each feature; it shrinks
            linearly to a tenth.
        num_restarts: How many starts.

    Returns:
        The points ``(N, M)`` and the values of the target there ``(N,)``.
    """
    lower, upper = interval
    sign = 1.0 if largest else -1.0
    best = masked.values.detach()
    found = sign * target(masked.at(best).logits, masked.y).detach()
    for start in drawn_points(interval, num_restarts):
        point = start
        for step in range(num_steps + 1):
            point = point.detach().requires_grad_()
            with torch.enable_grad():
                values = sign * target(masked.at(point).logits, masked.y)
                (slope,) = torch.autograd.grad(values.sum(), point)
            better = values.detach() > found
            best = torch.where(better[:, None], point.detach(), best)
            found = torch.where(better, values.detach(), found)
            share = step_size * (1 - 0.9 * step / max(1, num_steps)) if step else 1.0
            stride = share * (upper - lower)
            point = torch.addcmul(point.detach(), stride, slope.sign()).clamp(lower, upper)
    return best, sign * found
