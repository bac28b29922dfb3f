"""Samples that people annotated: find them, draw some, and keep only their masks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from rightreasons.core.checks import check_integer
from rightreasons.core.progress import progress
from rightreasons.core.rng import random_stream
from rightreasons.datasets import Augmented, Dataset
from rightreasons.datasets.wrappers import ChangedMasks, keep_masks
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

__all__ = [
    "CHUNK",
    "annotated_by_hand",
    "change_below_augmentation",
    "draw_annotated",
    "few_places",
    "find_annotated",
    "keep_annotations",
    "load_annotated",
    "merge_channels",
    "refuse_maskless",
    "with_few",
]

CHUNK = 256
FEWEST = 2


def refuse_maskless(data: Dataset) -> None:
    """Raise if the data are not images ``(C, H, W)`` with masks."""
    if len(data.card.shape) != 3:
        raise InvalidSettingError(
            f"Expected images of shape (C, H, W) for a pseudo-annotator, but {data.card.name!r} "
            f"has samples of shape {data.card.shape}."
        )
    if not data.has_masks:
        raise InvalidSettingError(
            f"Expected data with masks of at least {FEWEST} samples for a pseudo-annotator, but "
            f"{data.card.name!r} has none. Annotate a handful of images first."
        )


def find_annotated(data: Dataset) -> Tensor:
    """Find which samples were annotated, ``(N,)`` booleans; reads all samples once.

    Example:
        >>> from rightreasons.datasets import decoy_digits, mask_fraction
        >>> few = mask_fraction(decoy_digits(), fraction=0.02).train
        >>> int(find_annotated(few).sum())
        20
    """
    refuse_maskless(data)
    flags = []
    with progress("looking for annotations", total=len(data)) as advance:
        for batch in data.batches(torch.split(torch.arange(len(data)), CHUNK)):
            everyone = torch.ones(len(batch), dtype=torch.bool)
            flags.append(everyone if batch.annotated is None else batch.annotated.cpu())
            advance(len(batch))
    return torch.cat(flags)


def merge_channels(batch: Batch) -> Tensor:
    """Merge a mask's channels to one by their maximum, in full size, ``(N, 1, H, W)``."""
    if batch.mask is None:
        raise InvalidSettingError("Expected a batch with a `mask`, but got none.")
    return batch.mask.amax(dim=1, keepdim=True).expand(-1, 1, *batch.x.shape[2:])


def load_annotated(data: Dataset) -> Batch:
    """Load the annotated samples into memory, with masks of one channel and a single label.

    Raises:
        InvalidSettingError: There are fewer than two, or all masks are wholly 0 or wholly 1.
    """
    indices = find_annotated(data).nonzero().flatten()
    if len(indices) < FEWEST:
        raise InvalidSettingError(
            f"Expected at least {FEWEST} annotated samples to learn masks from, but "
            f"{data.card.name!r} has {len(indices)} of {len(data)}. Annotate more images."
        )
    parts = [
        Batch.trusted(
            x=batch.x, y=torch.zeros_like(batch.y), mask=merge_channels(batch).contiguous()
        )
        for batch in data.batches(torch.split(indices, CHUNK))
    ]
    samples = Batch.collate(parts)
    low, high = (float(value) for value in torch.aminmax(samples.mask))  # type: ignore[arg-type]
    if low == high:
        raise InvalidSettingError(
            f"Expected annotations that mark a part of some images, but all {len(indices)} masks "
            f"of {data.card.name!r} are {low:g} everywhere: there is nothing to learn. Mark, with "
            "1, what the model must not look at, and leave the rest 0."
        )
    return samples


def draw_annotated(
    labels: Tensor, annotated: Tensor, num_per_class: int, *, seed: int = 0
) -> Tensor:
    """Draw the same number of annotated samples from each class; all of a class with fewer.

    With the same seed, a smaller draw is part of a larger one.

    Args:
        labels: Labels ``(N,)``.
        annotated: ``(N,)`` booleans.
        num_per_class: Samples to draw from each class, at least 1.
        seed: Random seed for the draw.

    Returns:
        Indices, in ascending order.

    Example:
        >>> labels = torch.tensor([0, 0, 0, 1, 1])
        >>> labels[draw_annotated(labels, torch.tensor([True] * 4 + [False]), 2)]
        tensor([0, 0, 1])
    """
    check_integer("num_annotations", num_per_class)
    known, is_annotated = labels.cpu().numpy(), annotated.cpu().numpy()
    drawn = [
        random_stream(seed, "few", int(label)).permutation(members)[:num_per_class]
        for label in np.unique(known)
        for members in [np.flatnonzero((known == label) & is_annotated)]
    ]
    return torch.from_numpy(np.sort(np.concatenate(drawn)))


def keep_annotations(data: Dataset, indices: Tensor) -> Dataset:
    """Keep only the masks at ``indices``; the others become zero and not annotated."""
    key = f"few {indices.tolist()}"  # part of the data's digest: must not change
    return change_below_augmentation(data, lambda base: keep_masks(base, indices, key=key))


# Names of earlier versions.
annotated_by_hand = find_annotated
few_places = draw_annotated
with_few = keep_annotations


def change_below_augmentation(data: Dataset, change: Callable[[Dataset], Dataset]) -> Dataset:
    """Change the masks of data below their augmentation, where a mask fits its image.

    Args:
        data: Data that may be `Augmented`, and may have changed masks on top of that.
        change: Gives data other masks, each for an image that is not augmented.
    """
    if isinstance(data, Augmented):
        return data.rebase(change(data.base))
    if isinstance(data, ChangedMasks):
        top = data
        return change_below_augmentation(
            data.base, lambda base: change(ChangedMasks(base, top.change, key=top.key))
        )
    below: object = data
    while (below := getattr(below, "base", None)) is not None:
        if isinstance(below, Augmented):
            raise InvalidSettingError(
                f"Expected data that are flipped and cropped last, but {type(data).__name__} is "
                "on top of that, where a mask would not fit its image. Put `Augmented` on top."
            )
    return change(data)
