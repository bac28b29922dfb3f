"""Straight lines below and above an activation over a box."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rightreasons.bounds.activation import slope_ends
from rightreasons.bounds.box import Box
from rightreasons.bounds.curve import curve
from rightreasons.bounds.linear_map import LinearMap, linear_map
from rightreasons.bounds.rounding import FUNCTION_ERROR, precision, smallest
from rightreasons.bounds.rule import ruled_kind

__all__ = ["Band", "affine_view", "band", "chord", "is_relu", "relu_slopes"]


def affine_view(layer: object) -> LinearMap | None:
    """The affine view of a layer, if it has one and no other rule comes before it."""
    if isinstance(layer, LinearMap):
        return layer
    return linear_map(layer) if ruled_kind(type(layer)) in linear_map.registry else None


def is_relu(layer: object) -> bool:
    """Whether a layer is bounded as ReLU is."""
    return ruled_kind(type(layer)) is nn.ReLU


def chord(lower: Tensor, upper: Tensor, *, outward: bool) -> tuple[Tensor, Tensor]:
    r"""Slope and offset of the line above :math:`\max(v, 0)` through both its ends.

    Where the box does not contain zero, ReLU itself is a line.
    """
    crosses = (lower < 0) & (upper > 0)
    width = torch.where(crosses, upper - lower, torch.ones_like(upper))
    slope = torch.where(crosses, upper / width, (upper > 0).to(upper.dtype))
    offset = torch.where(crosses, -slope * lower, torch.zeros_like(slope))
    if outward:  # the line must lie above both ends despite rounding
        needed = torch.maximum(offset, (1 - slope) * upper)
        needed = needed * (1 + 8 * precision(slope)) + smallest(slope)
        offset = torch.where(crosses, needed, offset)
    return slope, offset


def relu_slopes(lower: Tensor, upper: Tensor) -> Tensor:
    """The slope of the line below ReLU: whichever of 0 and 1 cuts off the smaller area."""
    return (upper > -lower).to(lower.dtype)


class Band(NamedTuple):
    r"""Two parallel lines around a curve: :math:`s v + m \pm e`."""

    slope: Tensor
    middle: Tensor
    reach: Tensor


def band(layer: nn.Module, source: Box, output: Box, *, outward: bool) -> Band:
    """The narrower of two bands: along the mean slope, and the level one of the output's box."""
    shape = curve(layer)
    flattest, steepest = slope_ends(shape, source, outward=outward)
    slope, spread = (steepest + flattest) * 0.5, (steepest - flattest) * 0.5
    middle = shape.function(source.center) - slope * source.center
    reach = spread * source.full_radius()
    if outward:
        size = output.magnitude + shape.scale + slope.abs() * source.magnitude
        reach = reach * (1 + 8 * precision(reach)) + 2 * FUNCTION_ERROR * precision(reach) * size
    level = reach >= output.full_radius()
    return Band(
        torch.where(level, torch.zeros_like(slope), slope),
        torch.where(level, output.center, middle),
        torch.where(level, output.full_radius(), reach),
    )
