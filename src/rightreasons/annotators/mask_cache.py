"""Predicted masks kept on disk, under the names of who predicted them and of what."""

from __future__ import annotations

import logging
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rightreasons.checkpoint import writable_folder, write_atomically

__all__ = ["cached_rows"]

logger = logging.getLogger("rightreasons")


def cached_rows(
    folder: str | Path,
    *,
    annotator: str,
    data: str,
    shape: tuple[int, int],
    make: Callable[[], NDArray[np.uint8]],
) -> NDArray[np.uint8]:
    """Read masks that were predicted before, or predict and keep them.

    A file is used if both hashes in it match; one that is damaged or of something else is made
    anew, with a warning.

    Args:
        folder: Where the file is, ``masks-ANNOTATOR-DATA.npz``.
        annotator: Hash of who predicts.
        data: Hash of what is predicted.
        shape: Of the rows.
        make: Predicts; rows of bytes.
    """
    path = writable_folder(folder) / f"masks-{annotator[:12]}-{data[:12]}.npz"
    if path.exists():
        rows = _read(path, annotator, data, shape)
        if rows is not None:
            return rows
        logger.warning("The masks in %s are damaged or of other data: predicted anew.", path)
    made = make()
    write_atomically(
        path,
        lambda file: np.savez_compressed(
            file, rows=made, annotator=np.array(annotator), data=np.array(data)
        ),
    )
    return made


def _read(
    path: Path, annotator: str, data: str, shape: tuple[int, int]
) -> NDArray[np.uint8] | None:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            rows: NDArray[np.uint8] = kept["rows"]
            matches = str(kept["annotator"]) == annotator and str(kept["data"]) == data
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    return rows if matches and rows.shape == shape and rows.dtype == np.uint8 else None
