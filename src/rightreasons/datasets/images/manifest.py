"""The table of a folder of images, ``data.csv``: which file is what and goes where."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["Entry", "Manifest", "read_manifest"]

TABLE = "data.csv"
SPLITS = {"train": "train", "val": "val", "test": "test", "0": "train", "1": "val", "2": "test"}
COLUMNS = {  # what we call a column -> how tables spell it, in order of preference
    "file": ("file", "img_filename", "filename"),
    "label": ("label", "y"),
    "split": ("split",),
    "group": ("group",),
    "attribute": ("a", "place"),
    "mask": ("mask",),
}
REQUIRED = ("file", "label", "split")


@dataclass(frozen=True)
class Entry:
    """One row of the table; -1 is a label with a problem, or a group nobody knows."""

    row: int
    file: str
    split: str
    label: int
    group: int
    mask: str


@dataclass(frozen=True)
class Manifest:
    """All rows, the names their labels and groups stand for, and where it is said."""

    root: Path
    entries: tuple[Entry, ...]
    classes: tuple[str, ...]
    groups: tuple[str, ...]
    origin: str = f"its {TABLE} says"

    def part(self, split: str) -> tuple[Entry, ...]:
        """The rows of one split."""
        return tuple(entry for entry in self.entries if entry.split == split)

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of all splits, in the order of the rows."""
        return tuple(dict.fromkeys(entry.split for entry in self.entries))

    @property
    def has_masks(self) -> bool:
        """Whether any row names a mask."""
        return any(entry.mask for entry in self.entries)


def read_manifest(root: Path, *, table: str = TABLE) -> tuple[Manifest, list[str]]:
    """Read ``data.csv``; problems of its rows are listed, not raised.

    Args:
        root: The folder with the table; files are named relative to it.
        table: What the table is called, if it is not ``data.csv``.

    Returns:
        The manifest, and a line for every problem, with its row as a spreadsheet counts them.

    Raises:
        DatasetNotFoundError: There is no table.
        DatasetCorruptError: It is not a table with the columns it needs.
    """
    path = root / table
    if not path.is_file():
        raise DatasetNotFoundError(
            f"Expected a table at {path}, but there is none. Write one with the columns "
            "file,label,split and, if you have them, group,mask."
        )
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.reader(lines, strict=True)
            header = [name.strip().lower() for name in next(reader, [])]
            rows = [(reader.line_num, fields) for fields in reader if any(fields)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetCorruptError(
            f"Expected {path} to be a table in UTF-8 with commas, but got: {error}."
        ) from error
    places = _places(header, path)
    attribute = header[places["attribute"]] if "attribute" in places else ""
    if not rows:
        raise DatasetCorruptError(f"Expected {path} to have rows, but it has a header only.")
    problems = [
        f"row {row}: has {len(fields)} fields, but the header has {len(header)}"
        for row, fields in rows
        if len(fields) != len(header)
    ]
    cells = [
        (row, {name: _cell(fields, place) for name, place in places.items()})
        for row, fields in rows
    ]
    manifest = replace(_numbered(root, cells, attribute), origin=f"its {table} says")
    return manifest, problems + _problems(manifest, cells)


def _places(header: list[str], path: Path) -> dict[str, int]:
    places = {}
    for name, spellings in COLUMNS.items():
        found = [spelling for spelling in spellings if spelling in header]
        if found:
            places[name] = header.index(found[0])
    missing = [" or ".join(COLUMNS[name]) for name in REQUIRED if name not in places]
    if missing:
        semicolons = " Save it with commas, not semicolons." if ";" in ",".join(header) else ""
        raise DatasetCorruptError(
            f"Expected {path} to have the columns file, label and split, but it has no "
            f"{', no '.join(missing)}; it has: {', '.join(header) or 'nothing'}.{semicolons}"
        )
    return places


def _cell(fields: list[str], place: int) -> str:
    return fields[place].strip() if place < len(fields) else ""


def _sorted_names(values: Iterable[str]) -> tuple[str, ...]:
    """Distinct non-empty values, by number if all are numbers, else by the alphabet."""
    names = {value for value in values if value}
    numeric = all(name.isdecimal() for name in names)
    return tuple(sorted(names, key=(lambda name: (int(name), name)) if numeric else None))


def _numbered(root: Path, cells: list[tuple[int, dict[str, str]]], attribute: str) -> Manifest:
    classes = _sorted_names(cell["label"] for _, cell in cells)
    own = _sorted_names(cell.get("group", "") for _, cell in cells)
    attributes = () if own else _sorted_names(cell.get("attribute", "") for _, cell in cells)
    crossed = tuple(
        f"label {label}, {attribute} {value}" for label in classes for value in attributes
    )
    numbers = {name: number for number, name in enumerate(classes)}
    group_numbers = {name: number for number, name in enumerate(own or attributes)}

    def group(cell: Mapping[str, str]) -> int:
        name = cell.get("group" if own else "attribute", "")
        if not name or not cell["label"]:
            return -1
        number = group_numbers[name]
        return number if own else numbers[cell["label"]] * len(attributes) + number

    entries = tuple(
        Entry(
            row=row,
            file=cell["file"],
            split=SPLITS.get(cell["split"].lower(), ""),
            label=numbers.get(cell["label"], -1),
            group=group(cell),
            mask=cell.get("mask", ""),
        )
        for row, cell in cells
    )
    return Manifest(root=root, entries=entries, classes=classes, groups=own or crossed)


def _problems(manifest: Manifest, cells: list[tuple[int, dict[str, str]]]) -> list[str]:
    problems = []
    first_rows: dict[str, int] = {}
    for entry, (row, cell) in zip(manifest.entries, cells, strict=True):
        at = f"row {row}, {entry.file or 'no file'}: "
        if not entry.file:
            problems.append(f"{at}names no file")
        elif (first := first_rows.setdefault(str(Path(entry.file)), row)) != row:
            problems.append(f"{at}is a duplicate of row {first}")
        if entry.label < 0:
            problems.append(f"{at}has no label")
        if not entry.split:
            accepted = "train, val, test, 0, 1 or 2"
            problems.append(f"{at}has the split {cell['split']!r}, expected {accepted}")
    for split in ("train", "test"):
        if not manifest.part(split):
            problems.append(f"no row has the split {split!r}")
    trained = {entry.label for entry in manifest.part("train")}
    problems += [
        f"the label {name!r} occurs, but not in the split 'train'"
        for number, name in enumerate(manifest.classes)
        if trained and number not in trained
    ]
    return problems
