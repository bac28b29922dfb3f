"""The worst input gradient within a box: by drawing, and by climbing from the worst drawn."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rightreasons.inside import Inside
from rightreasons.norm import Norm, sample_norm
from rightreasons.target import Target
from rightreasons.types import Interval

__all__ = ["GradientSize", "climbed", "drawn_points", "worst_drawn"]


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
    inside: Inside, interval: Interval, size: GradientSize, *, target: Target, num_samples: int
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
    together = max(1, (inside.max_rows or _COMFORTABLE_ROWS) // max(1, num_rows))
    sizes = [
        size(inside.at(some.flatten(0, 1)).gradient(target)).detach()
        for some in torch.split(points, together)
    ]
    worst = torch.cat(sizes).view(num_samples, num_rows).argmax(dim=0)
    return points[worst, torch.arange(num_rows, device=worst.device)]


def climbed(
    inside: Inside,
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
        inside: The model inside the masks.
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
            gradient = inside.at(point).gradient(target, create_graph=True)
            sizes = size(gradient)
            slope = _slope(sizes, point)
        best, largest = _better(point.detach(), sizes.detach(), best, largest)
        point = torch.addcmul(point.detach(), stride, slope.sign()).clamp(lower, upper)
    sizes = size(inside.at(point).gradient(target)).detach()
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
