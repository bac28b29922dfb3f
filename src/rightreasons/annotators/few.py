"""A handful of annotations per class, as if the others had not been made."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rightreasons.annotators.before_augmentation import before_augmentation
from rightreasons.datasets import Dataset
from rightreasons.datasets.random_stream import random_stream
from rightreasons.datasets.remasked import remasked
from rightreasons.setting import checked_number

__all__ = ["few_places", "with_few"]


def few_places(labels: Tensor, annotated: Tensor, num_per_class: int, *, seed: int = 0) -> Tensor:
    """Draw annotated samples, so many of each class; all of a class that has fewer.

    For one seed those of a smaller number are among those of a larger one.

    Args:
        labels: ``(N,)``.
        annotated: ``(N,)`` booleans.
        num_per_class: From 1.
        seed: Of the draw.

    Returns:
        Places, in ascending order.

    Example:
        >>> labels = torch.tensor([0, 0, 0, 1, 1])
        >>> labels[few_places(labels, torch.tensor([True] * 4 + [False]), 2)]
        tensor([0, 0, 1])
    """
    checked_number("num_annotations", num_per_class)
    known, by_hand = labels.cpu().numpy(), annotated.cpu().numpy()
    kept = [
        random_stream(seed, "few", int(label)).permutation(members)[:num_per_class]
        for label in np.unique(known)
        for members in [np.flatnonzero((known == label) & by_hand)]
    ]
    return torch.from_numpy(np.sort(np.concatenate(kept)))


def with_few(data: Dataset, places: Tensor) -> Dataset:
    """The data with the masks at ``places`` alone; the others are zero and not annotated."""
    keeps = torch.zeros(len(data), dtype=torch.bool)
    keeps[places] = True

    def without(mask: Tensor, annotated: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        stays = keeps[rows].to(mask.device)
        return mask * stays.reshape(-1, *[1] * (mask.ndim - 1)), annotated & stays

    key = f"few {places.tolist()}"
    return before_augmentation(data, lambda base: remasked(base, without, key=key))
