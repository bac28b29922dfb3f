"""Predicted masks for the samples that nobody annotated."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rightreasons.annotators.annotator import PseudoAnnotator
from rightreasons.annotators.hand_masks import CHUNK, change_below_augmentation, refuse_maskless
from rightreasons.annotators.quality import confidence
from rightreasons.core.arrays import read_arrays
from rightreasons.core.checks import check_flag
from rightreasons.core.files import Unreadable, writable_folder, write_atomically
from rightreasons.core.progress import progress
from rightreasons.datasets import Dataset, MaskBits
from rightreasons.datasets.wrappers import change_masks, pack_masks
from rightreasons.errors import InvalidBatchError

__all__ = ["annotate_rest", "fill_masks", "predict_rows", "read_or_predict"]

logger = logging.getLogger("rightreasons")


def read_or_predict(
    folder: str | Path,
    *,
    annotator: str,
    data: str,
    shape: tuple[int, int],
    make: Callable[[], NDArray[np.uint8]],
) -> NDArray[np.uint8]:
    """Read masks that were predicted before, or predict them and write them to a file.

    A file is used if both hashes in it match. A damaged file, or one of other data, is written
    again, with a warning.

    Args:
        folder: Folder of the file ``masks-ANNOTATOR-DATA.npz``.
        annotator: Hash of the annotator.
        data: Hash of the data.
        shape: Shape of the array of rows.
        make: Predicts the masks, as rows of bytes.
    """
    path = writable_folder(folder) / f"masks-{annotator[:12]}-{data[:12]}.npz"
    if path.exists():
        rows = _read_rows(path, annotator, data, shape)
        if rows is not None:
            return rows
        logger.warning("The masks in %s are damaged or of other data: predicted anew.", path)
    rows = make()
    write_atomically(
        path,
        lambda file: np.savez_compressed(
            file, rows=rows, annotator=np.array(annotator), data=np.array(data)
        ),
    )
    return rows


def _read_rows(
    path: Path, annotator: str, data: str, shape: tuple[int, int]
) -> NDArray[np.uint8] | None:
    try:
        kept = read_arrays(path)
        rows: NDArray[np.uint8] = kept["rows"]
        matches = str(kept["annotator"]) == annotator and str(kept["data"]) == data
    except (OSError, Unreadable, KeyError):
        return None
    return rows if matches and rows.shape == shape and rows.dtype == np.uint8 else None


def annotate_rest(
    data: Dataset,
    *,
    annotator: PseudoAnnotator,
    cache_dir: str | Path | None = None,
    weight_by_confidence: bool = False,
) -> Dataset:
    """Predict a mask for every sample that has none; annotated masks stay.

    ``annotated`` stays the same, so that it is False for predicted masks. Every term that reads
    masks uses both kinds.

    Args:
        data: Images, of which some have masks; the annotator may have learned from others.
        annotator: A fitted annotator.
        cache_dir: Folder to keep predictions in, as bytes, under the hashes of annotator and
            data; used again when both match. None keeps nothing.
        weight_by_confidence: Multiply each predicted mask by its `confidence`, so that an
            uncertain mask counts less. Not for terms that also say where to look (`ReFFL1`,
            `ReFFL2`, `ABN`): for them a smaller value means another mask, not less certainty.

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
        return np.concatenate(list(predict_rows(data, annotator)))

    digest = annotator.digest()
    if cache_dir is None:
        rows = make()
    else:
        rows = read_or_predict(
            cache_dir,
            annotator=digest,
            data=data.digest(),
            shape=(len(data), height * width),
            make=make,
        )
    bits = MaskBits(rows, size=(height, width), soft=True)
    return fill_masks(data, bits, key=digest, weight_by_confidence=weight_by_confidence)


def predict_rows(data: Dataset, annotator: PseudoAnnotator) -> Iterator[NDArray[np.uint8]]:
    """Predict the mask of every sample as a row of bytes, chunk by chunk."""
    with progress("predicting masks", total=len(data)) as advance:
        for batch in data.batches(torch.split(torch.arange(len(data)), CHUNK)):
            yield pack_masks(annotator.masks(batch.x), soft=True)
            advance(len(batch))


def fill_masks(
    data: Dataset, bits: MaskBits, *, key: str, weight_by_confidence: bool = False
) -> Dataset:
    """Use predicted masks for the samples that nobody annotated.

    Args:
        data: Images, of which some have masks.
        bits: A soft mask for each sample; those of annotated samples are not used.
        key: Hash of the annotator, for the digest of the data.
        weight_by_confidence: Whether a mask counts by the annotator's confidence in it.
    """
    check_flag("weight_by_confidence", weight_by_confidence)
    if len(bits) != len(data) or bits.size != data.card.shape[1:]:
        raise InvalidBatchError(
            f"Expected a mask for each of {len(data)} images of shape {data.card.shape}, but got "
            f"{len(bits)} of {bits.size[0]}x{bits.size[1]} pixels."
        )

    def fill(mask: Tensor, annotated: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
        soft = bits.at(indices)
        weighted = soft * confidence(soft) if weight_by_confidence else soft
        return torch.where(annotated.reshape(-1, 1, 1, 1), mask, weighted.to(mask)), annotated

    name = f"predicted {key} {weight_by_confidence}"
    return change_below_augmentation(data, lambda base: change_masks(base, fill, key=name))
