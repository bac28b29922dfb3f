"""Products of boxes."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.bounds.box import Box
from rightreasons.bounds.rounding import precision, smallest

__all__ = ["product", "product_ends", "rounded_apart"]


def product_ends(
    first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """The smallest and the largest product of numbers between two pairs of ends."""
    corners = [left * right for left in first for right in second]
    lower, upper = corners[0], corners[0]
    for corner in corners[1:]:
        lower, upper = torch.minimum(lower, corner), torch.maximum(upper, corner)
    return lower, upper


def product(first: Box, second: Box, *, outward: bool) -> Box:
    """The box of all products; exact up to rounding."""
    if first.is_exact and not outward:
        return Box(first.center * second.center, first.center.abs() * second.full_radius())
    if second.is_exact and not outward:
        return product(second, first, outward=False)
    ends = product_ends(first.ends(outward=outward), second.ends(outward=outward))
    return Box.between(*(rounded_apart(*ends) if outward else ends), outward=outward)


def rounded_apart(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Both ends moved apart by more than the rounding of a product or two."""
    ulps, least = 4 * precision(lower), smallest(lower)
    return lower - (lower.abs() * ulps + least), upper + (upper.abs() * ulps + least)
