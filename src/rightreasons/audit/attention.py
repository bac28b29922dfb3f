"""Where a model looks: the window of each image with the largest input gradient."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from rightreasons.audit.patches import patch_side
from rightreasons.audit.patterns import match_patterns
from rightreasons.audit.regions import Region, shrink_images
from rightreasons.audit.samples import Samples
from rightreasons.explainers import InputGradient

__all__ = ["find_attended"]

MOST_EXPLAINED = 400
CHUNK = 100


def find_attended(
    model: nn.Module, samples: Samples, predicted: Tensor, known: Sequence[Region]
) -> tuple[Tensor, Tensor]:
    """Find the window that matters most to each prediction, outside of known patterns.

    Args:
        model: The model.
        samples: The audited images, of which at most 400 searched ones are explained.
        predicted: Predicted classes of the searched images.
        known: Patterns that were found before.

    Returns:
        Row and column of the middle of each window, ``(N, 2)``, and whether it may be used.
    """
    num = len(samples.search)
    some = torch.linspace(0, num - 1, min(num, MOST_EXPLAINED)).long()
    place = torch.zeros(num, 2, dtype=torch.long)
    usable = torch.zeros(num, dtype=torch.bool)
    for part in torch.split(some, CHUNK):
        x = samples.take(samples.search[part])
        device = next(model.parameters(), x).device
        gradient = InputGradient()(model, x.to(device), predicted[part].to(device)).cpu()
        place[part] = _top_window(shrink_images(gradient.abs().mean(dim=1, keepdim=True)))
        usable[part] = True
        small = samples.small[samples.search[part]]
        side = patch_side(*small.shape[2:]) // 2 * 2 + 1
        for region in known:
            mask = match_patterns(list(region.patterns), small).mask
            near = functional.max_pool2d(mask, side, stride=1, padding=side // 2)
            inside = near[torch.arange(len(part)), 0, place[part][:, 0], place[part][:, 1]] > 0
            usable[part[inside]] = False
    return place, usable


def _top_window(heat: Tensor) -> Tensor:
    """Row and column of the window with the largest mean, ``(N, 1, h, w) -> (N, 2)``."""
    side = patch_side(*heat.shape[2:])
    sums = functional.avg_pool2d(heat, side, stride=1)
    top = sums.flatten(1).argmax(dim=1)
    return torch.stack([top // sums.shape[3], top % sums.shape[3]], dim=1) + side // 2
