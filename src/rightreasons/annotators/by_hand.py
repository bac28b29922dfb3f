"""Which samples somebody annotated, and these samples alone."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.datasets import Dataset
from rightreasons.datasets.progress import progress
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

__all__ = ["CHUNK", "annotated_by_hand", "annotated_samples", "one_channel", "refuse_maskless"]

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
