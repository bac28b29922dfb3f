"""The table of an image folder: file, label, split, group and mask of each image."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from rightreasons.datasets.images.table import TABLES, find_table, read_table
from rightreasons.datasets.splitting import stratified_split
from rightreasons.errors import DatasetCorruptError, InvalidSettingError

__all__ = [
    "COLUMNS",
    "MASK_COLUMNS",
    "REQUIRED",
    "Entry",
    "Manifest",
    "folder_manifest",
    "read_manifest",
    "split_paths",
]

TABLE = TABLES[0]
SPLITS = {"train": "train", "val": "val", "test": "test", "0": "train", "1": "val", "2": "test"}
COLUMNS = {  # column -> its names in tables, in order of preference
    "file": ("file", "img_filename", "filename"),
    "label": ("label", "y"),
    "split": ("split",),
    "group": ("group",),
    "attribute": ("a", "place"),
    "mask": ("mask", "irrelevant_mask", "relevant_mask"),
}
MASK_COLUMNS = {"irrelevant_mask": "irrelevant", "relevant_mask": "relevant"}
"""Columns of masks whose name says what is white."""
REQUIRED = ("file", "label", "split")
MOST_GROUPS = 1000


@dataclass(frozen=True)
class Entry:
    """One row of the table; -1 is an invalid label or an unknown group."""

    row: int
    file: str
    split: str
    label: int
    group: int
    mask: str
    turn: int = 1
    """Orientation tag by which the mask is turned as its image; 1 is not at all."""


@dataclass(frozen=True)
class Manifest:
    """A table: the rows, the names of labels and groups, and the origin for messages."""

    root: Path
    entries: tuple[Entry, ...]
    classes: tuple[str, ...]
    groups: tuple[str, ...]
    origin: str = f"its {TABLE} says"
    mask_polarity: str | None = None
    """What is white in masks, if the table says it."""

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


def read_manifest(
    root: Path, *, table: str | None = None, groups: Sequence[str] = ()
) -> tuple[Manifest, list[str]]:
    """Read the table of a folder; problems of its rows are returned, not raised.

    Args:
        root: The folder with the table; file names are relative to it.
        table: File name of the table; None is ``data.csv`` or ``data.parquet``.
        groups: Columns whose values together make the groups; empty is the table's own groups.

    Returns:
        The manifest, and one line for every problem. Rows are counted as in a spreadsheet.

    Raises:
        DatasetNotFoundError: There is no table.
        DatasetCorruptError: The file is not a table with the columns file, label and split.
    """
    path = find_table(root, TABLES if table is None else (table,))
    header, rows = read_table(path)
    columns = _find_columns(header, path)
    crossed = _find_group_columns(header, columns, groups, path)
    if not rows:
        raise DatasetCorruptError(f"Expected {path} to have rows, but it has a header only.")
    problems = [
        f"row {row}: has {len(fields)} fields, but the header has {len(header)}"
        for row, fields in rows
        if len(fields) != len(header)
    ]
    cells = [
        (row, {name: _cell(fields, column) for name, column in columns.items()})
        for row, fields in rows
    ]
    values = [{name: _cell(fields, place) for name, place in crossed.items()} for _, fields in rows]
    manifest = _number_rows(root, cells, values)
    polarity = MASK_COLUMNS.get(header[columns["mask"]]) if "mask" in columns else None
    manifest = replace(manifest, origin=f"its {path.name} says", mask_polarity=polarity)
    return manifest, problems + _find_problems(manifest, cells)


def folder_manifest(
    root: Path, files: Mapping[str, list[Path]], classes: tuple[str, ...], *, origin: str
) -> tuple[Manifest, list[str]]:
    """Make the table of images that lie in one folder per class.

    Args:
        root: The folder that file names are relative to.
        files: The images of each split; the name of an image's folder is its class.
        classes: Class names in the order of the labels.
        origin: Where the layout comes from, for messages.

    Returns:
        The manifest, and one line for every folder that is no class.
    """
    labels = {name: label for label, name in enumerate(classes)}
    entries, unknown = list[Entry](), set[Path]()
    for split, paths in files.items():
        for path in paths:
            label = labels.get(path.parent.name)
            if label is None:
                unknown.add(path.parent.relative_to(root))
                continue
            name = str(path.relative_to(root))
            entries.append(Entry(len(entries) + 1, name, split, label, -1, ""))
    problems = [f"{folder}: is no class of the training images" for folder in sorted(unknown)]
    return Manifest(root, tuple(entries), classes, (), origin=origin), problems


def split_paths(
    paths: list[Path], share: float, *, stream: np.random.Generator
) -> tuple[list[Path], list[Path]]:
    """Hold out a fraction of images that lie in one folder per class, stratified by class.

    Args:
        paths: The images.
        share: Fraction to hold out.
        stream: Random numbers for the order.

    Returns:
        The other images and the images held out.
    """
    names = sorted({path.parent.name for path in paths})
    y = torch.tensor([names.index(path.parent.name) for path in paths])
    held_out, kept = stratified_split(y, sizes=[round(share * len(y))], stream=stream)
    return [paths[n] for n in kept.tolist()], [paths[n] for n in held_out.tolist()]


def _find_columns(header: list[str], path: Path) -> dict[str, int]:
    """The index of each column in the header."""
    columns = {}
    for name, spellings in COLUMNS.items():
        present = [spelling for spelling in spellings if spelling in header]
        if name == "mask" and len(present) > 1:
            raise DatasetCorruptError(
                f"Expected {path} to have one column of masks, but got {', '.join(present)}."
            )
        if present:
            columns[name] = header.index(present[0])
    missing = [" or ".join(COLUMNS[name]) for name in REQUIRED if name not in columns]
    if missing:
        semicolons = " Save it with commas, not semicolons." if ";" in ",".join(header) else ""
        raise DatasetCorruptError(
            f"Expected {path} to have the columns file, label and split, but it has no "
            f"{', no '.join(missing)}; it has: {', '.join(header) or 'nothing'}.{semicolons}"
        )
    return columns


def _find_group_columns(
    header: list[str], columns: Mapping[str, int], groups: Sequence[str], path: Path
) -> dict[str, int]:
    """The columns whose values make the groups, by name."""
    if not groups:
        if "group" in columns:
            return {"group": columns["group"]}
        if "attribute" in columns:
            attribute = columns["attribute"]
            return {"label": columns["label"], header[attribute]: attribute}
        return {}
    known = {**{name: place for place, name in enumerate(header) if name}, **columns}
    unknown = [name for name in groups if name.lower() not in known]
    if unknown:
        raise InvalidSettingError(
            f"Expected `groups` (--groups) to be columns of {path}, which has "
            f"{', '.join(filter(None, header))}; but got {', '.join(unknown)}."
        )
    return {name.lower(): known[name.lower()] for name in groups}


def _cell(fields: list[str], column: int) -> str:
    return fields[column].strip() if column < len(fields) else ""


def _sorted_names(values: Iterable[str]) -> tuple[str, ...]:
    """Distinct non-empty values, sorted as numbers if all are numbers, else as text."""
    names = {value for value in values if value}
    numeric = all(name.isdecimal() for name in names)
    return tuple(sorted(names, key=(lambda name: (int(name), name)) if numeric else None))


def _number_rows(
    root: Path, cells: list[tuple[int, dict[str, str]]], values: list[dict[str, str]]
) -> Manifest:
    """Number labels and groups; several columns make a group for each combination."""
    classes = _sorted_names(cell["label"] for _, cell in cells)
    numbers = {name: number for number, name in enumerate(classes)}
    columns = list(values[0])
    names = {column: _sorted_names(value[column] for value in values) for column in columns}
    count = math.prod(len(found) for found in names.values())
    if count > MOST_GROUPS:
        raise InvalidSettingError(
            f"Expected at most {MOST_GROUPS} groups, but the columns {', '.join(columns)} make "
            f"{count}. Choose columns with fewer values."
        )
    combinations = list(itertools.product(*names.values())) if columns and count else []
    places = {combination: number for number, combination in enumerate(combinations)}
    groups = tuple(
        combination[0]
        if len(columns) == 1
        else ", ".join(
            f"{column} {value}" for column, value in zip(columns, combination, strict=True)
        )
        for combination in combinations
    )
    entries = tuple(
        Entry(
            row=row,
            file=cell["file"],
            split=SPLITS.get(cell["split"].lower(), ""),
            label=numbers.get(cell["label"], -1),
            group=places.get(tuple(value.values()), -1) if cell["label"] else -1,
            mask=cell.get("mask", ""),
        )
        for (row, cell), value in zip(cells, values, strict=True)
    )
    return Manifest(root=root, entries=entries, classes=classes, groups=groups)


def _find_problems(manifest: Manifest, cells: list[tuple[int, dict[str, str]]]) -> list[str]:
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
