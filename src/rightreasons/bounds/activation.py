"""Bounds of smooth and kinked activations, from their curves; ReLU has a file of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.bounds.box import Box
from rightreasons.bounds.curve import Curve
from rightreasons.bounds.product import product_ends, rounded_apart
from rightreasons.bounds.rounding import FUNCTION_ERROR, precision

__all__ = ["curve_backward", "curve_forward", "slope_ends"]


def slope_ends(shape: Curve, box: Box, *, outward: bool) -> tuple[Tensor, Tensor]:
    """The smallest and the largest slope of a curve over a box."""
    lower, upper = box.ends(outward=outward)
    first, second = shape.slope(lower), shape.slope(upper)
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    low, high = _with_turns(low, high, shape.slope_turns, lower, upper)
    return _rounded(low, high, shape.scale) if outward else (low, high)


def curve_forward(shape: Curve, box: Box, *, outward: bool) -> Box:
    """The box of a curve's values over a box."""
    lower, upper = box.ends(outward=outward)
    low, high = shape.function(lower), shape.function(upper)
    if not shape.increasing:
        low, high = torch.minimum(low, high), torch.maximum(low, high)
        low, high = _with_turns(low, high, shape.turns, lower, upper)
    return Box.between(
        *(_rounded(low, high, shape.scale) if outward else (low, high)), outward=outward
    )


def curve_backward(shape: Curve, gradient: Box, box: Box, *, outward: bool) -> Box:
    """The box of gradients times the slopes of a curve over a box."""
    slopes = slope_ends(shape, box, outward=outward)
    if gradient.is_exact and not outward:
        slope = Box.between(*slopes)
        return Box(gradient.center * slope.center, gradient.center.abs() * slope.radius)
    ends = product_ends(gradient.ends(outward=outward), slopes)
    return Box.between(*(rounded_apart(*ends) if outward else ends), outward=outward)


def _with_turns(
    low: Tensor, high: Tensor, turns: tuple[tuple[float, float], ...], lower: Tensor, upper: Tensor
) -> tuple[Tensor, Tensor]:
    for place, value in turns:
        inside = (lower <= place) & (upper >= place)
        low = torch.where(inside, low.clamp(max=value), low)
        high = torch.where(inside, high.clamp(min=value), high)
    return low, high


def _rounded(low: Tensor, high: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    error = FUNCTION_ERROR * precision(low)
    return low - error * (low.abs() + scale), high + error * (high.abs() + scale)
