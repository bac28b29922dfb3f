"""The masks of all samples in one file: written, and put on the data again."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rightreasons.annotators.before_augmentation import before_augmentation
from rightreasons.annotators.by_hand import CHUNK, one_channel
from rightreasons.annotators.mask_file import MaskFiles, file_names
from rightreasons.checkpoint import writable_folder, write_atomically
from rightreasons.datasets import Dataset, MaskBits
from rightreasons.datasets.progress import progress
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["with_mask_archive", "write_masks"]

LEVELS = 255


def write_masks(path: str | Path, data: Dataset) -> None:
    """Write the mask of every sample as an archive of arrays; `with_mask_archive` reads it.

    ::

        mask       (N, H, W) bytes; 255 where the model must not look
        annotated  (N,) booleans: by hand; else predicted
        files      (N,) names, if images have files

    Args:
        path: Of the ``.npz``.
        data: As `annotate_rest` gives them.
    """
    masks, annotated = [], []
    with progress("writing masks", total=len(data)) as advance:
        for batch in data.batches(torch.split(torch.arange(len(data)), CHUNK)):
            masks.append((one_channel(batch)[:, 0] * LEVELS).round().byte().numpy())
            everyone = torch.ones(len(batch), dtype=torch.bool)
            annotated.append((everyone if batch.annotated is None else batch.annotated).numpy())
            advance(len(batch))
    arrays: dict[str, Any] = {"mask": np.concatenate(masks), "annotated": np.concatenate(annotated)}
    files = file_names(data)
    if files is not None:
        arrays["files"] = np.array(files)
    where = Path(path)
    writable_folder(where.parent)
    write_atomically(where, lambda file: np.savez_compressed(file, **arrays))


def with_mask_archive(data: Dataset, path: str | Path) -> Dataset:
    """Take the masks of all images from what `write_masks` wrote; the data's own are put aside.

    ``annotated`` is true for masks drawn by hand, as after `annotate_rest`.

    Args:
        data: The same images in the same order. That they are the same is known by their files
            alone, and where these are not known by their number and size.
        path: Of the ``.npz``.

    Raises:
        DatasetNotFoundError: There is no such file.
        DatasetCorruptError: It is no such archive, or is of other images.
    """
    try:
        with np.load(path, allow_pickle=False) as kept:
            arrays = {name: kept[name] for name in kept.files}
        mask, annotated = arrays["mask"], torch.from_numpy(arrays["annotated"])
    except FileNotFoundError as error:
        raise DatasetNotFoundError(
            f"Expected masks at {path}, but there is no such file. Write it with "
            "`rightreasons annotate --rest --out`."
        ) from error
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DatasetCorruptError(
            f"Expected {path} as `rightreasons annotate --rest` wrote it, but cannot read it: "
            f"{error}."
        ) from error
    shape = (len(data), *data.card.shape[1:])
    if mask.shape != shape or annotated.shape != shape[:1]:
        raise DatasetCorruptError(
            f"Expected {path} to have masks of {shape}, one for each image of {data.card.name!r}, "
            f"but got {mask.shape}. Use the data it was written for, of the same size."
        )
    files, names = arrays.get("files"), file_names(data)
    if files is not None and names is not None and files.tolist() != names:
        other = next(pair for pair in zip(names, files.tolist(), strict=True) if pair[0] != pair[1])
        raise DatasetCorruptError(
            f"Expected {path} to have masks of the images of {data.card.name!r} in their order, "
            f"but where these have {other[0]} it has {other[1]}. Use the data it was written for."
        )
    height, width = shape[1:]
    bits = MaskBits(mask.reshape(len(data), -1), size=(height, width), soft=True)
    return before_augmentation(data, lambda base: MaskFiles(base, bits, annotated))
