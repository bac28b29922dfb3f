"""What to annotate next, as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rightreasons.annotators.mask_file import file_names
from rightreasons.annotators.next_image import Suggestion
from rightreasons.checkpoint import writable_folder, write_atomically
from rightreasons.datasets import Dataset

__all__ = ["suggestion_rows", "write_rows"]


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
