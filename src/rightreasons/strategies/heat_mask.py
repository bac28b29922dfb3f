"""From a heat map to a mask: where does it stand out?"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

__all__ = ["RULES", "STATISTICS", "Rule", "Statistics", "heat_mask"]

Rule = Literal["deviations", "top", "soft"]
Statistics = Literal["all", "positive"]
RULES: tuple[Rule, ...] = ("deviations", "top", "soft")
STATISTICS: tuple[Statistics, ...] = ("all", "positive")


def heat_mask(
    heat: Tensor,
    *,
    rule: Rule = "deviations",
    k: float = 2.0,
    statistics: Statistics = "all",
    share: float = 0.05,
) -> Tensor:
    r"""Mask the hottest pixels of each map.

    ============== =================================================================
    ``deviations`` pixels above :math:`\mu + k \sigma` of the sample's own map
    ``top``        the ``share`` of the pixels that are hottest, at least one
    ``soft``       every pixel by its heat over the largest
    ============== =================================================================

    A map that is nowhere above zero masks nothing, nor does a flat one for ``deviations``.

    Args:
        heat: ``(N, 1, H, W)``, at least 0.
        rule: One of these.
        k: How many deviations, at least 0.
        statistics: Take mean and (population) deviation of all pixels, or of those above 0 only.
        share: Of the pixels.

    Returns:
        ``(N, 1, H, W)`` in [0, 1].

    Example:
        >>> heat = torch.tensor([[[[0.0, 0.0, 0.0], [0.0, 0.0, 9.0]]]])
        >>> heat_mask(heat)[0, 0]
        tensor([[0., 0., 0.],
                [0., 0., 1.]])
    """
    flat = heat.flatten(1)
    if rule == "soft":
        largest = flat.amax(dim=1, keepdim=True)
        mask = torch.where(largest > 0, flat / torch.where(largest > 0, largest, 1), 0)
    elif rule == "top":
        places = flat.topk(max(math.floor(share * flat.shape[1]), 1), dim=1).indices
        mask = torch.zeros_like(flat).scatter(1, places, 1.0)
        mask = torch.where(flat > 0, mask, 0)
    else:
        exact = flat.double()
        stands_out = exact > _threshold(exact, k, statistics)
        is_flat = exact.amax(dim=1, keepdim=True) == exact.amin(dim=1, keepdim=True)
        mask = (stands_out & ~is_flat).to(flat)
    return mask.reshape(heat.shape)


def _threshold(flat: Tensor, k: float, statistics: Statistics) -> Tensor:
    counted = flat > 0 if statistics == "positive" else torch.ones_like(flat, dtype=torch.bool)
    num = counted.sum(dim=1, keepdim=True).clamp(min=1)
    mean = torch.where(counted, flat, 0).sum(dim=1, keepdim=True) / num
    spread = torch.where(counted, flat - mean, 0).square().sum(dim=1, keepdim=True) / num
    return mean + k * spread.sqrt()
