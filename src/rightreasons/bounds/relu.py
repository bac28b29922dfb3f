"""Bounds of ReLU, written for speed: every training step of a certified objective uses them.

Both rules are functions with a backward pass of their own, which can be differentiated once. They
work in place where they can, since new memory costs more than arithmetic. They multiply with zeros
and ones instead of `torch.where`, which is several times slower on a CPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rightreasons.bounds.box import Box
from rightreasons.bounds.rule import backward_bounds, forward_bounds

__all__ = ["relu_slope_ends"]


class _RectifiedBox(torch.autograd.Function):
    """Centre and radius of ``[relu(c - r), relu(c + r)]``."""

    @staticmethod
    def forward(ctx: Any, center: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        lower, upper = (center - radius).clamp_(min=0), (center + radius).clamp_(min=0)
        new_radius = upper.sub_(lower).mul_(0.5)
        new_center = lower.add_(new_radius)
        ctx.save_for_backward(new_center, new_radius)
        return new_center, new_radius

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        center, radius = ctx.saved_tensors
        at_center, at_radius = gradients
        gate = (center - radius).gt_(0)
        at_lower = (at_center - at_radius).mul_(gate)
        torch.add(center, radius, out=gate).gt_(0)
        at_upper = (at_center + at_radius).mul_(gate)
        torch.add(at_lower, at_upper, out=gate)
        return gate.mul_(0.5), at_upper.sub_(at_lower).mul_(0.5)


class _GatedGradient(torch.autograd.Function):
    r"""Centre and radius of a gradient times a slope that lies between two ends.

    The ends ``d`` and ``D`` of the slope, each 0 or 1, are constants. The lower end is
    :math:`D \min(l, 0) + d \max(l, 0)`, the upper end :math:`D \max(u, 0) + d \min(u, 0)`.
    """

    @staticmethod
    def forward(
        ctx: Any, center: Tensor, radius: Tensor, flattest: Tensor, steepest: Tensor
    ) -> tuple[Tensor, Tensor]:
        low, high = center - radius, center + radius
        certain = low.clamp(min=0).mul_(flattest)
        low.clamp_(max=0).mul_(steepest).add_(certain)
        torch.clamp(high, max=0, out=certain).mul_(flattest)
        high.clamp_(min=0).mul_(steepest).add_(certain)
        new_radius = high.sub_(low).mul_(0.5)
        new_center = low.add_(new_radius)
        ctx.save_for_backward(new_center, new_radius, steepest + flattest)
        return new_center, new_radius

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        # An end depends on the gradient where the slope is 1 for certain (d = D = 1), or may be 1
        # (D = 1) and the end is not 0. `slopes` is d + D: 2, 1 or 0.
        center, radius, slopes = ctx.saved_tensors
        at_center, at_radius = gradients
        gate = (center - radius).ge_(0)
        torch.sub(slopes, gate, out=gate).clamp_(0, 1)
        at_low = (at_center - at_radius).mul_(gate)
        torch.add(center, radius, out=gate).le_(0)
        torch.sub(slopes, gate, out=gate).clamp_(0, 1)
        at_high = (at_center + at_radius).mul_(gate)
        torch.add(at_low, at_high, out=gate)
        return gate.mul_(0.5), at_high.sub_(at_low).mul_(0.5), None, None


@torch.no_grad()
def relu_slope_ends(box: Box, *, outward: bool) -> tuple[Tensor, Tensor]:
    """The smallest and the largest slope of ReLU over a box.

    The first is 1 where the ReLU is on for certain, the second where it may be on.
    """
    if outward:
        lower, upper = box.ends(outward=True)
        return _signs(lower), _signs(upper)
    return (box.center - box.radius).gt_(0), (box.center + box.radius).gt_(0)


@forward_bounds.register
def _(layer: nn.ReLU, *boxes: Box, outward: bool) -> Box:
    del layer
    if not outward and not boxes[0].is_exact:
        return Box(*_RectifiedBox.apply(*boxes[0]))  # type: ignore[no-untyped-call]
    lower, upper = boxes[0].ends(outward=outward)
    return Box.between(torch.relu(lower), torch.relu(upper), outward=outward)


@backward_bounds.register
def _(
    layer: nn.ReLU, gradient: Box, inputs: tuple[Box, ...], output: Box, *, outward: bool
) -> tuple[Box, ...]:
    del layer, output
    flattest, steepest = relu_slope_ends(inputs[0], outward=outward)
    if outward:
        low, high = gradient.ends(outward=True)
        low = low.clamp(max=0) * steepest + low.clamp(min=0) * flattest
        high = high.clamp(min=0) * steepest + high.clamp(max=0) * flattest
        return (Box.between(low, high, outward=True),)
    if gradient.is_exact:
        half = (steepest - flattest).mul_(0.5)
        middle = flattest.add_(half)
        return (Box(gradient.center * middle, gradient.center.abs() * half),)
    gated = _GatedGradient.apply(*gradient, flattest, steepest)  # type: ignore[no-untyped-call]
    return (Box(*gated),)


def _signs(values: Tensor) -> Tensor:
    return torch.gt(values, 0).to(values.dtype)
