"""Bounds that grew beyond all numbers say nothing, and must say so."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from rightreasons.bounds.box import Box

__all__ = ["honest_ends"]


def honest_ends(ends: tuple[Tensor, Tensor], boxes: Iterable[Box]) -> tuple[Tensor, Tensor]:
    """The ends, but minus and plus infinity for samples in which any box overflowed.

    From infinite ends follow NaNs, and from these anything, such as a ReLU that seems to be off.

    Args:
        ends: Of some result, ``(N, ...)``.
        boxes: All that the result was derived from, ``(N, ...)`` each.
    """
    lower, upper = ends
    fits = ~torch.isnan(lower) & ~torch.isnan(upper)
    for box in boxes:
        finite = torch.isfinite(box.magnitude).flatten(1).all(dim=1)
        fits = fits & finite.view(-1, *[1] * (lower.ndim - 1))
    if bool(fits.all()):
        return ends
    return (
        torch.where(fits, lower, torch.full_like(lower, -torch.inf)),
        torch.where(fits, upper, torch.full_like(upper, torch.inf)),
    )
