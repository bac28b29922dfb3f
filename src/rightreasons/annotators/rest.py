"""Fill in the masks nobody drew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rightreasons.annotators.annotator import PseudoAnnotator
from rightreasons.annotators.before_augmentation import before_augmentation
from rightreasons.annotators.by_hand import CHUNK, refuse_maskless
from rightreasons.annotators.mask_cache import cached_rows
from rightreasons.annotators.uncertainty import confidence
from rightreasons.datasets import Dataset, MaskBits
from rightreasons.datasets.mask_bits import packed
from rightreasons.datasets.progress import progress
from rightreasons.datasets.remasked import remasked
from rightreasons.errors import InvalidBatchError
from rightreasons.setting import checked_flag

__all__ = ["annotate_rest", "predicted_rows", "with_predicted"]


def annotate_rest(
    data: Dataset,
    *,
    annotator: PseudoAnnotator,
    cache_dir: str | Path | None = None,
    weight_by_confidence: bool = False,
) -> Dataset:
    """The data with a mask for every sample: by hand where there was one, else predicted.

    ``annotated`` stays as it was, and so tells hand from machine; every term that reads masks
    uses both.

    Args:
        data: Images with masks of some; the annotator learned from them, or from others.
        annotator: Fitted.
        cache_dir: Folder to keep predictions in, as bytes, under the hashes of annotator and
            data; used again when both match. None keeps nothing.
        weight_by_confidence: Multiply each predicted mask by its `confidence`, so that a mask
            that is unsure counts less. Not for terms that also say where to look (`ReFFL1`,
            `ReFFL2`, `ABN`): to these a smaller value is no doubt, but another mask.

    Example:
        >>> from rightreasons.datasets import decoy_digits, mask_fraction
        >>> few = mask_fraction(decoy_digits(), fraction=0.02).train
        >>> annotator = PseudoAnnotator(width=4, depth=1, num_updates=3)
        >>> filled = annotate_rest(few, annotator=annotator.fit(few, progress=False))
        >>> batch = filled.take(torch.arange(1000))
        >>> int(batch.annotated.sum()), int(batch.guided.sum())
        (20, 1000)
    """
    refuse_maskless(data)
    height, width = data.card.shape[1:]

    def make() -> NDArray[np.uint8]:
        return np.concatenate(list(predicted_rows(data, annotator)))

    digest = annotator.digest()
    if cache_dir is None:
        rows = make()
    else:
        rows = cached_rows(
            cache_dir,
            annotator=digest,
            data=data.digest(),
            shape=(len(data), height * width),
            make=make,
        )
    bits = MaskBits(rows, size=(height, width), soft=True)
    return with_predicted(data, bits, key=digest, weight_by_confidence=weight_by_confidence)


def predicted_rows(data: Dataset, annotator: PseudoAnnotator) -> Iterator[NDArray[np.uint8]]:
    """The predicted mask of every sample as a row of bytes, chunk after chunk."""
    with progress("predicting masks", total=len(data)) as advance:
        for batch in data.batches(torch.split(torch.arange(len(data)), CHUNK)):
            yield packed(annotator.masks(batch.x), soft=True)
            advance(len(batch))


def with_predicted(
    data: Dataset, bits: MaskBits, *, key: str, weight_by_confidence: bool = False
) -> Dataset:
    """Put predicted masks where nobody annotated.

    Args:
        data: Images with masks of some.
        bits: A soft mask for each sample; those of annotated ones are not used.
        key: Who predicted them, for the digest.
        weight_by_confidence: See `annotate_rest`.
    """
    checked_flag("weight_by_confidence", weight_by_confidence)
    if len(bits) != len(data) or bits.size != data.card.shape[1:]:
        raise InvalidBatchError(
            f"Expected a mask for each of {len(data)} images of shape {data.card.shape}, but got "
            f"{len(bits)} of {bits.size[0]}x{bits.size[1]} pixels."
        )

    def filled(mask: Tensor, annotated: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        soft = bits.at(places)
        weighed = soft * confidence(soft) if weight_by_confidence else soft
        return torch.where(annotated.reshape(-1, 1, 1, 1), mask, weighed.to(mask)), annotated

    name = f"predicted {key} {weight_by_confidence}"
    return before_augmentation(data, lambda base: remasked(base, filled, key=name))
