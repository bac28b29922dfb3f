"""A check of the user's own data: every problem at once, each with file and row."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from rightreasons.core.checks import check_integer
from rightreasons.core.progress import map_parallel, progress
from rightreasons.datasets.images.class_folders import read_class_folders
from rightreasons.datasets.images.duplicates import (
    find_near,
    find_same,
    hash_content,
    hash_looks,
    shrink,
)
from rightreasons.datasets.images.files import (
    SIDEWAYS,
    check_data_dir,
    image_size,
    read_image,
    read_mask,
    stored_size,
)
from rightreasons.datasets.images.manifest import COLUMNS, Entry, Manifest, read_manifest
from rightreasons.datasets.images.row_checks import (
    KINDS,
    DataProblem,
    find_column_problems,
    find_group_problems,
    find_row_problems,
)
from rightreasons.datasets.images.splits import Reading, check_value_range
from rightreasons.datasets.images.table import TABLES, find_table, read_table
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["check_data"]

LARGEST_INVERTED = 0.3  # masks usually cover less, so that one that covers the rest stands out
TRUNCATED = ("truncat", "greater than file size", "unexpected end", "broken data stream")


@dataclass
class _Look:
    """What one row's files look like."""

    problems: list[DataProblem]
    size: tuple[int, int] | None = None
    content: bytes = b""
    looks: Tensor | None = None
    area: float | None = None
    corners: bool = False


def check_data(
    path: str | PathLike[str],
    *,
    least_group: int = 10,
    most_imbalance: int = 10,
    value_range: tuple[float, float] | None = None,
    workers: int | None = None,
) -> list[DataProblem]:
    """Look at every row, image and mask of a data folder; give all problems.

    Args:
        path: A folder as `folder` or `image_folder` reads it.
        least_group: Fewest samples of a group in a split that is measured. Without groups it
            counts for classes.
        most_imbalance: Largest ratio of two classes' sizes in training.
        value_range: The values that become 0 and 1, for images with more than 8 bits a channel.
        workers: Number of threads; the number of processors, at most 4, if None.

    Returns:
        The problems, by row.

    Example:
        >>> check_data("/nowhere")
        Traceback (most recent call last):
        rightreasons.errors.DatasetNotFoundError: Expected a folder with images at /nowhere, ...
    """
    check_integer("least_group", least_group)
    check_integer("most_imbalance", most_imbalance)
    scale = check_value_range(value_range)
    root = check_data_dir(path)
    if not root.is_dir():
        raise DatasetNotFoundError(
            f"Expected a folder with images at {root}, but there is none. Name the folder that has "
            "data.csv, or a folder for each class."
        )
    try:
        manifest, columns, problems, table = _read(root)
    except (DatasetCorruptError, FileNotFoundError) as error:
        return [DataProblem("table", str(error).rstrip("."), ".")]
    entries = [entry for entry in manifest.entries if entry.file]
    with warnings.catch_warnings():  # a filter for the whole process, also in the threads below
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        seen = map_parallel(
            lambda index: _look(root, entries[index], scale),
            len(entries),
            workers=Reading(workers=workers).num_workers,
            description="looking at images",
        )
        looks = dict(zip((entry.row for entry in entries), seen, strict=True))
        problems += [problem for look in seen for problem in look.problems]
        problems += _find_inverted(entries, looks)
        problems += _find_duplicates(manifest, entries, looks, scale)
    problems += find_group_problems(manifest, least_group, most_imbalance)
    labelled = [entry for entry in manifest.part("train") if entry.label >= 0]
    columns["file type"] = {entry.row: Path(entry.file).suffix.lower() for entry in labelled}
    columns["image size"] = {
        entry.row: "x".join(map(str, looks[entry.row].size or ())) if entry.row in looks else ""
        for entry in labelled
    }
    problems += [
        DataProblem(kind, message, table or ".", 1 if table else None)
        for kind, message in find_column_problems(
            columns, {entry.row: entry.label for entry in labelled}, len(manifest.classes)
        )
    ]
    if not table:
        problems = [replace(problem, row=None) for problem in problems]
    return sorted(problems, key=lambda problem: (problem.row or 0, problem.file, problem.kind))


def _read(root: Path) -> tuple[Manifest, dict[str, dict[int, str]], list[DataProblem], str]:
    """The rows, further columns by name and row, problems of the table, and its name."""
    if not any((root / name).is_file() for name in TABLES):
        manifest, lines = read_class_folders(root, validation_share=0.1, test_share=0.2, seed=0)
        found = [line.split(": ", 1) for line in lines]
        problems = [
            DataProblem(
                "unused-mask" if file.startswith("masks") else "untrained-label", words, file
            )
            for file, words in found
        ]
        return manifest, {}, problems, ""
    table = find_table(root)
    header, rows = read_table(table)
    manifest, _ = read_manifest(root)
    roles = {name for names in COLUMNS.values() for name in names}
    columns = {
        name: {row: cells[place].strip() for row, cells in rows if place < len(cells)}
        for place, name in enumerate(header)
        if name and name not in roles
    }
    wrong = [
        DataProblem(
            "fields", f"has {len(cells)} fields, but the header has {len(header)}", entry.file, row
        )
        for entry, (row, cells) in zip(manifest.entries, rows, strict=True)
        if len(cells) != len(header)
    ]
    known = {problem.row for problem in wrong}
    return (
        manifest,
        columns,
        wrong + list(find_row_problems(manifest, table.name, known)),
        table.name,
    )


def _look(root: Path, entry: Entry, scale: tuple[float, float] | None) -> _Look:
    """Read an image and its mask."""
    look = _Look([])
    stored: tuple[int, int] | None = None
    try:
        stored, orientation = stored_size(root / entry.file)
        look.size = stored[::-1] if orientation in SIDEWAYS else stored
        image = read_image(root / entry.file, size=look.size, channels=3, value_range=scale)
        look.content, look.looks = hash_content(image), hash_looks(image)
        if bool((image == image[:, :1, :1]).all()):
            look.problems.append(
                DataProblem("blank-image", "has one colour", entry.file, entry.row)
            )
    except DatasetCorruptError as error:
        look.problems.append(DataProblem(_kind(str(error)), str(error), entry.file, entry.row))
    if entry.mask:
        try:
            size = image_size(root / entry.mask)
            if look.size and size not in (look.size, stored):
                raise DatasetCorruptError(
                    f"has {size[0]}x{size[1]} pixels, but its image {entry.file} has "
                    f"{look.size[0]}x{look.size[1]}"
                )
            mask = read_mask(root / entry.mask, size=size)[0] > 0.5
            look.area = float(mask.float().mean())
            look.corners = bool(mask[:: max(size[0] - 1, 1), :: max(size[1] - 1, 1)].all())
            for kind, area in (("empty-mask", 0.0), ("full-mask", 1.0)):
                if look.area == area:
                    look.problems.append(DataProblem(kind, KINDS[kind][7:], entry.mask, entry.row))
        except DatasetCorruptError as error:
            words = str(error)
            kind = "missing-mask" if words == "no such file" else "unreadable-mask"
            kind = "mask-size" if "but its image" in words else kind
            look.problems.append(DataProblem(kind, words, entry.mask, entry.row))
    return look


def _kind(words: str) -> str:
    if words == "no such file":
        return "missing-image"
    if "decompression bomb" in words:
        return "bomb"
    cut = any(word in words for word in TRUNCATED)
    return "truncated-image" if cut else "unreadable-image"


def _find_inverted(entries: Sequence[Entry], looks: dict[int, _Look]) -> list[DataProblem]:
    """Masks that cover all corners and most of the image, while the others cover little."""
    areas = {row: look.area for row, look in looks.items() if look.area not in (None, 0.0, 1.0)}
    if not areas or np.median(list(areas.values())) > LARGEST_INVERTED:
        return []
    usual = float(np.median(list(areas.values())))
    return [
        DataProblem(
            "inverted-mask",
            f"marks {areas[entry.row]:.0%} of its image with all corners, and the usual mask "
            f"{usual:.0%}: it looks inverted",
            entry.mask,
            entry.row,
        )
        for entry in entries
        if (areas.get(entry.row) or 0) >= 1 - LARGEST_INVERTED and looks[entry.row].corners
    ]


def _find_duplicates(
    manifest: Manifest,
    entries: Sequence[Entry],
    looks: dict[int, _Look],
    scale: tuple[float, float] | None,
) -> list[DataProblem]:
    ranks = {"train": 0, "val": 1, "test": 2}
    usable = [entry for entry in entries if entry.split in ranks and looks[entry.row].content]
    usable = sorted(
        {str(Path(entry.file)): entry for entry in reversed(usable)}.values(),  # a file once
        key=lambda entry: (ranks[entry.split], entry.row),
    )
    parts, problems = [entry.split for entry in usable], list[DataProblem]()

    def report(kind: str, words: str, index: int, other: int) -> None:
        entry, before = usable[index], usable[other]
        place = f"row {before.row}, {before.file}, in the split {before.split!r}"
        problems.append(DataProblem(kind, f"{words} {place}", entry.file, entry.row))

    contents = [looks[entry.row].content for entry in usable]
    same = find_same(contents, parts)
    for index, other in same:
        report("same-image", "is the same image as", index, other)
    labels: dict[bytes, int] = {}
    for index, entry in enumerate(usable):
        other = labels.setdefault(contents[index], index)
        if usable[other].label != entry.label and min(usable[other].label, entry.label) >= 0:
            report("label-conflict", "has another label than the same image in", index, other)

    @lru_cache(maxsize=4096)
    def thumbnail(index: int) -> Tensor:
        path = manifest.root / usable[index].file
        size = looks[usable[index].row].size or (1, 1)
        return shrink(read_image(path, size=size, channels=3, value_range=scale))

    found = {index for index, _ in same}
    if len(set(parts)) > 1:
        hashes = torch.stack([looks[entry.row].looks for entry in usable])  # type: ignore[misc]
        with progress("comparing images", total=len(usable)) as advance:
            for index, other in find_near(hashes, parts, thumbnail, advance):
                if index not in found:
                    report("near-image", "is nearly the same image as", index, other)
    return problems
