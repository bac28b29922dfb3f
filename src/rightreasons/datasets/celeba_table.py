"""CelebA's tables: attributes of faces and their split, as text or with commas."""

import csv
from collections.abc import Iterator
from pathlib import Path

from rightreasons.errors import DatasetCorruptError

__all__ = ["SUFFIXES", "read_celeba_column"]

SUFFIXES = (".csv", ".txt")  # as Kaggle and WILDS have them, as they were published


def read_celeba_column(path: Path, columns: list[str]) -> dict[str, list[int]]:
    """Some columns of a table, by the name of the image.

    Args:
        path: ``.csv`` with a header; or ``.txt``, where columns are parted by spaces, a table of
            attributes begins with a count and a header, and a table of splits has neither.
        columns: Names in the header; of a table without one, the columns there are.

    Raises:
        DatasetCorruptError: It has no such column, or not a whole number in it.
    """
    try:
        rows = _comma_rows(path) if path.suffix == ".csv" else _space_rows(path, columns)
        header = next(rows, [])
        places = [header.index(name) for name in columns]
        found = {row[0]: [int(row[place]) for place in places] for row in rows}
        if not found:
            raise ValueError("it has no rows")
    except (OSError, UnicodeDecodeError, csv.Error, ValueError, IndexError) as error:
        raise DatasetCorruptError(
            f"Expected {path} to be CelebA's table with whole numbers in {', '.join(columns)}, but "
            f"got: {error}. Copy it anew."
        ) from error
    return found


def _comma_rows(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        yield from (row for row in csv.reader(lines, strict=True) if row)


def _space_rows(path: Path, columns: list[str]) -> Iterator[list[str]]:
    with path.open(encoding="utf-8") as lines:
        rows = [line.split() for line in lines if line.strip()]
    if len(rows) > 1 and len(rows[0]) == 1:  # the count, then names of all columns but the first
        yield ["image_id", *rows[1]]
        yield from rows[2:]
    else:
        yield ["image_id", *columns]
        yield from rows
