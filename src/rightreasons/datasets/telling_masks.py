"""Whether masks tell the class, by their presence or by their place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.types import Batch

__all__ = ["coarse_places", "mask_tells_class", "what_tells_class"]

PRESENCE_GAP = 0.1
"""Classes this far apart in how often they carry a mask are unlike."""
SMALL_MASK = 0.25
"""A larger mask has the shape of an object, which may tell the class by right."""
GRID = 8
MIN_OF_CLASS = 5
"""Classes with fewer annotated samples do not count when masks are compared between classes."""


def what_tells_class(parts: Sequence[Batch]) -> Literal["place", "presence", ""]:
    """What of the masks of annotated samples tells the class; the place goes first.

    The place of a word in a text says nothing, since texts differ in length.

    Args:
        parts: Samples with masks, in batches.
    """
    masks = [torch.zeros(len(part), 1) if part.mask is None else part.mask.cpu() for part in parts]
    carries = torch.cat([(mask != 0).flatten(1).any(dim=1) for mask in masks])
    labels = torch.cat([part.y.cpu() for part in parts])
    annotated = torch.cat(
        [
            torch.ones(len(part)).bool() if part.annotated is None else part.annotated.cpu()
            for part in parts
        ]
    )
    _, number, size = torch.unique(labels[annotated], return_inverse=True, return_counts=True)
    rows = annotated.nonzero().flatten()[size[number] >= MIN_OF_CLASS]
    if not len(rows):
        return ""
    if parts[0].x.is_floating_point():
        places = torch.cat([coarse_places(mask) for mask in masks])[rows]
        if _place_tells_class(labels[rows], carries[rows], places):
            return "place"
    return "presence" if _presence_tells_class(labels[rows], carries[rows]) else ""


def mask_tells_class(labels: Tensor, carries: Tensor, places: Tensor) -> bool:
    """Whether the presence or the place of a mask tells the class.

    Then an exchange between samples that have a mask leaves what gives the class away.

    Args:
        labels: Labels ``(N,)``.
        carries: Whether each sample has a mask, ``(N,)`` booleans.
        places: A coarse picture of each mask, ``(N, P)``, from `coarse_places`.
    """
    return _presence_tells_class(labels, carries) or _place_tells_class(labels, carries, places)


def _presence_tells_class(labels: Tensor, carries: Tensor) -> bool:
    """Whether two classes differ by 10 points in how often they carry a mask."""
    shares = torch.stack([carries[labels == y].double().mean() for y in torch.unique(labels)])
    return float(shares.max() - shares.min()) >= PRESENCE_GAP


def _place_tells_class(labels: Tensor, carries: Tensor, places: Tensor) -> bool:
    """Whether the nearest mean place of a class names the class clearly better than chance.

    Mean places come from every other sample, and the rest is named by them. Chance is the most
    frequent class. Masks of more than a quarter of the input are left out, since they follow the
    shape of the object.
    """
    small = carries & (places.mean(dim=1) <= SMALL_MASK)
    order = labels[small].argsort(stable=True)  # then every other one has samples of all classes
    y = labels[small][order]
    place = functional.normalize(places[small][order].double(), p=1, dim=1)
    known, asked = slice(0, None, 2), slice(1, None, 2)
    classes = torch.unique(y[known])
    if len(classes) < 2 or not len(y[asked]):
        return False
    means = torch.stack([place[known][y[known] == k].mean(dim=0) for k in classes])
    named = classes[torch.cdist(place[asked], means).argmin(dim=1)]
    frequent = float(torch.bincount(y[asked]).max()) / len(y[asked])
    noise = 3 * math.sqrt(frequent * (1 - frequent) / len(y[asked]))
    right = float((named == y[asked]).double().mean())
    return right > frequent + max(noise, (1 - frequent) / 4)


def coarse_places(mask: Tensor) -> Tensor:
    """Average masks ``(N, *M)`` over at most 8 × 8 cells: ``(N, P)``."""
    flat = mask.float()
    if mask.ndim == 4:
        height, width = (min(GRID, size) for size in mask.shape[2:])
        over_channels = flat.amax(dim=1, keepdim=True)
        return functional.adaptive_avg_pool2d(over_channels, (height, width)).flatten(1)
    flat = flat.flatten(1)
    return functional.adaptive_avg_pool1d(flat[:, None], min(GRID**2, flat.shape[1]))[:, 0]
