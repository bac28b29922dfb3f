"""The samples that people annotated by hand."""

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
    "annotated_samples",
    "before_augmentation",
    "few_places",
    "one_channel",
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


def annotated_by_hand(data: Dataset) -> Tensor:
    """Whether each sample was annotated, ``(N,)``; reads all of them once.

    Example:
        >>> from rightreasons.datasets import decoy_digits, mask_fraction
        >>> few = mask_fraction(decoy_digits(), fraction=0.02).train
        >>> int(annotated_by_hand(few).sum())
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


def one_channel(batch: Batch) -> Tensor:
    """The mask with one channel and full size, ``(N, 1, H, W)``; the largest where several are."""
    if batch.mask is None:
        raise InvalidSettingError("Expected a batch with a `mask`, but got none.")
    return batch.mask.amax(dim=1, keepdim=True).expand(-1, 1, *batch.x.shape[2:])


def annotated_samples(data: Dataset) -> Batch:
    """The annotated samples, held in memory, with masks of one channel and a single label.

    Raises:
        InvalidSettingError: There are fewer than two, or all masks are wholly 0 or wholly 1.
    """
    places = annotated_by_hand(data).nonzero().flatten()
    if len(places) < FEWEST:
        raise InvalidSettingError(
            f"Expected at least {FEWEST} annotated samples to learn masks from, but "
            f"{data.card.name!r} has {len(places)} of {len(data)}. Annotate more images."
        )
    parts = [
        Batch.trusted(x=batch.x, y=torch.zeros_like(batch.y), mask=one_channel(batch).contiguous())
        for batch in data.batches(torch.split(places, CHUNK))
    ]
    samples = Batch.collate(parts)
    low, high = (float(value) for value in torch.aminmax(samples.mask))  # type: ignore[arg-type]
    if low == high:
        raise InvalidSettingError(
            f"Expected annotations that mark a part of some images, but all {len(places)} masks "
            f"of {data.card.name!r} are {low:g} everywhere: there is nothing to learn. Mark, with "
            "1, what the model must not look at, and leave the rest 0."
        )
    return samples


def few_places(labels: Tensor, annotated: Tensor, num_per_class: int, *, seed: int = 0) -> Tensor:
    """Draw annotated samples, so many of each class; all of a class that has fewer.

    For one seed those of a smaller number are among those of a larger one.

    Args:
        labels: ``(N,)``.
        annotated: ``(N,)`` booleans.
        num_per_class: From 1.
        seed: Random seed for the draw.

    Returns:
        Indices, in ascending order.

    Example:
        >>> labels = torch.tensor([0, 0, 0, 1, 1])
        >>> labels[few_places(labels, torch.tensor([True] * 4 + [False]), 2)]
        tensor([0, 0, 1])
    """
    check_integer("num_annotations", num_per_class)
    known, by_hand = labels.cpu().numpy(), annotated.cpu().numpy()
    kept = [
        random_stream(seed, "few", int(label)).permutation(members)[:num_per_class]
        for label in np.unique(known)
        for members in [np.flatnonzero((known == label) & by_hand)]
    ]
    return torch.from_numpy(np.sort(np.concatenate(kept)))


def with_few(data: Dataset, places: Tensor) -> Dataset:
    """The data with the masks at ``places`` alone; the others are zero and not annotated."""
    key = f"few {places.tolist()}"
    return before_augmentation(data, lambda base: keep_masks(base, places, key=key))


def before_augmentation(data: Dataset, change: Callable[[Dataset], Dataset]) -> Dataset:
    """Change data whose images are augmented on the way, below the augmentation.

    Args:
        data: Perhaps `Augmented`, perhaps with changed masks on top of that.
        change: What gives the data other masks, each for an image as it is in the data.
    """
    if isinstance(data, Augmented):
        return data.rebase(change(data.base))
    if isinstance(data, ChangedMasks):
        own = data
        return before_augmentation(
            data.base, lambda base: change(ChangedMasks(base, own.change, key=own.key))
        )
    inside: object = data
    while (inside := getattr(inside, "base", None)) is not None:
        if isinstance(inside, Augmented):
            raise InvalidSettingError(
                f"Expected data that are flipped and cropped last, but {type(data).__name__} is "
                "on top of that, where a mask would not fit its image. Put `Augmented` on top."
            )
    return change(data)
