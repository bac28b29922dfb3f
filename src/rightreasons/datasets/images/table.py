"""Tables of images: csv or parquet, all cells as text."""

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, MissingExtraError

__all__ = ["TABLES", "Rows", "find_table", "read_table"]

TABLES = ("data.csv", "data.parquet")
PARQUET = (".parquet", ".pq")

Rows = list[tuple[int, list[str]]]
"""The number of each row, as a spreadsheet counts (the header is 1), and its cells."""


def find_table(root: Path, names: Sequence[str] = TABLES) -> Path:
    """Find the one table of a folder.

    Raises:
        DatasetNotFoundError: There is none.
        DatasetCorruptError: There are several, which may differ.
    """
    found = [root / name for name in names if (root / name).is_file()]
    if not found:
        raise DatasetNotFoundError(
            f"Expected a table at {root / names[0]}, but there is none. Write one with the columns "
            "file,label,split and, if you have them, group,mask; class folders are read by "
            "--data image_folder."
        )
    if len(found) > 1:
        raise DatasetCorruptError(
            f"Expected one table in {root}, but got {' and '.join(path.name for path in found)}. "
            "Leave one of them."
        )
    return found[0]


def read_table(path: Path) -> tuple[list[str], Rows]:
    """Read the header, in small letters, and the rows of a table.

    Raises:
        DatasetCorruptError: The file is no such table, or has a column twice.
        MissingExtraError: It is a parquet file, and pyarrow is not installed.
    """
    header, rows = _read_parquet(path) if path.suffix.lower() in PARQUET else _read_csv(path)
    header = [name.strip().lower() for name in header]
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise DatasetCorruptError(
            f"Expected {path} to have each column once, but it has several called "
            f"{', '.join(twice)}. Rename or remove all but one."
        )
    return header, rows


def _read_csv(path: Path) -> tuple[list[str], Rows]:
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8-sig", newline="") as lines:
            reader = csv.reader(lines, strict=True)
            header = next(reader, [])
            return header, [(reader.line_num, cells) for cells in reader if any(cells)]
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetCorruptError(
            f"Expected {path} to be a table in UTF-8 with commas, but got: {error}."
        ) from error


def _read_parquet(path: Path) -> tuple[list[str], Rows]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError(f"Reading {path.name}, a parquet file,", "formats") from None
    try:
        table = parquet.read_table(path)
        columns = [column.to_pylist() for column in table.columns]
    except Exception as error:  # the content of a file may raise anything
        raise DatasetCorruptError(
            f"Expected {path} to be a parquet table, but got: {error}."
        ) from error
    cells = zip(*columns, strict=True)
    return table.column_names, [
        (number, [_text(cell) for cell in row]) for number, row in enumerate(cells, start=2)
    ]


def _text(cell: object) -> str:
    """A cell as csv would have it; 1.0 is 1, since a column with gaps is read as numbers."""
    if cell is None or cell != cell:
        return ""
    whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell)) if whole else str(cell)  # type: ignore[call-overload]
