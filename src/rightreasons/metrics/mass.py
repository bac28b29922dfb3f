"""The share of a map inside the masks: of each sample, and over all of them."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.metrics.interval import bootstrap_means, percentile_interval
from rightreasons.metrics.metric import Rows

__all__ = ["mass_rows", "mass_summary"]


def mass_rows(size: Tensor, mask: Tensor) -> Rows:
    """Each sample's share inside the mask.

    Args:
        size: Maps without negative values, ``(N, *S)``.
        mask: Broadcasting to it.

    Returns:
        ``mass``, the share; ``area``, the mask's share of the places; ``total``, the map's sum.

    Example:
        >>> rows = mass_rows(torch.tensor([[1.0, 3.0]]), torch.tensor([[0.0, 1.0]]))
        >>> rows["mass"], rows["area"]
        (tensor([0.7500], dtype=torch.float64), tensor([0.5000], dtype=torch.float64))
    """
    size = size.double()
    mask = mask.expand_as(size).double()
    total = size.flatten(1).sum(dim=1)
    inside = (mask * size).flatten(1).sum(dim=1)
    area = mask.flatten(1).mean(dim=1)
    return {"mass": inside / torch.where(total == 0, 1.0, total), "area": area, "total": total}


def mass_summary(rows: Rows) -> dict[str, float]:
    """The mean share over samples with a mask and a map, its interval, and the mask's area."""
    masked = rows["area"] > 0
    if not bool(masked.any()):
        return {"area": 0.0, "n": 0.0}
    counts = masked & (rows["total"] != 0)  # NaN counts, so that it shows
    if not bool(counts.any()):
        return {"": 0.0, "area": float(rows["area"][masked].mean()), "n": 0.0}
    mass, area = rows["mass"][counts], rows["area"][counts].mean()
    low, high = percentile_interval(bootstrap_means(mass.numpy()))
    bounds = {"low": low, "high": high}
    return {"": float(mass.mean()), **bounds, "area": float(area), "n": float(counts.sum())}
