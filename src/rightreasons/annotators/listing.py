"""What a pseudo-annotator has to say, as files: a listing, and all masks."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rightreasons.annotators.by_hand import CHUNK, one_channel
from rightreasons.annotators.mask_file import file_names
from rightreasons.annotators.next_image import Suggestion
from rightreasons.checkpoint import writable_folder, write_atomically
from rightreasons.datasets import Dataset
from rightreasons.datasets.progress import progress

__all__ = ["suggestion_rows", "write_masks", "write_rows"]

LEVELS = 255


def suggestion_rows(data: Dataset, suggestions: Sequence[Suggestion]) -> list[dict[str, Any]]:
    """A row for each image to annotate: its index, its file, if it has one, and uncertainty."""
    files = file_names(data)
    return [
        {"index": place, "file": "" if files is None else files[place], "uncertainty": unsure}
        for place, unsure in suggestions
    ]


def write_rows(path: str | Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows of the same keys as CSV, with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    where = Path(path)
    writable_folder(where.parent)
    write_atomically(where, lambda file: file.write(text.getvalue().encode()))


def write_masks(path: str | Path, data: Dataset) -> None:
    """Write the mask of every sample as an archive of arrays.

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
