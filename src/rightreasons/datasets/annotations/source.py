"""The images that masks are drawn for: their table, and how a tool's names are matched."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rightreasons.datasets.images.class_folders import SUFFIXES, read_class_folders
from rightreasons.datasets.images.manifest import COLUMNS, REQUIRED
from rightreasons.datasets.images.table import TABLES, find_table, read_table
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["ImageNames", "Source", "read_source"]

SHOWN = 3


@dataclass
class Source:
    """A table of images without masks.

    Args:
        root: The folder that files are relative to.
        header: Names of the columns.
        rows: Cells of each image.
        file_column: Name of the column with the file.
        complete: Whether there are labels and splits.
        problems: One line for each problem.
    """

    root: Path
    header: list[str]
    rows: list[list[str]]
    file_column: str = "file"
    complete: bool = True
    problems: list[str] = field(default_factory=list)

    @property
    def files(self) -> list[str]:
        """The file of each image."""
        place = self.header.index(self.file_column)
        return [cells[place] for cells in self.rows]

    def write(self, path: Path, masks: Mapping[str, str], target: Path, polarity: str) -> None:
        """Write the table with a column of masks.

        Args:
            path: The file to write.
            masks: The mask's file by the image's.
            target: Folder that the table will be in; files are relative to it.
            polarity: What is white in the masks.
        """
        place = self.header.index(self.file_column)
        with path.open("w", encoding="utf-8", newline="") as lines:
            writer = csv.writer(lines)
            writer.writerow([*self.header, f"{polarity}_mask"])
            for cells in self.rows:
                file = Path(os.path.relpath(self.root / cells[place], target)).as_posix()
                mask = masks.get(cells[place], "")
                writer.writerow([*cells[:place], file, *cells[place + 1 :], mask])


def read_source(root: Path, *, seed: int) -> Source:
    """Find the images of a folder: by its table, its class folders, or all files in it."""
    if not root.is_dir():
        raise DatasetNotFoundError(f"Expected a folder with images at {root}, but there is none.")
    if any((root / name).is_file() for name in TABLES):
        return _read_table(find_table(root))
    try:
        manifest, problems = read_class_folders(
            root, validation_share=0.1, test_share=0.2, seed=seed
        )
    except DatasetNotFoundError:
        paths = sorted(path for path in root.rglob("[!.]*") if path.suffix.lower() in SUFFIXES)
        if not paths:
            raise DatasetNotFoundError(
                f"Expected images in {root}, but there are none. Images end in "
                f"{', '.join(SUFFIXES)}."
            ) from None
        rows = [[path.relative_to(root).as_posix()] for path in paths]
        return Source(root, ["file"], rows, complete=False)
    if manifest.has_masks:
        problems.append(f"{root / 'masks'}: has masks already; move the folder elsewhere")
    rows = [[entry.file, manifest.classes[entry.label], entry.split] for entry in manifest.entries]
    return Source(root, ["file", "label", "split"], rows, problems=problems)


def _read_table(path: Path) -> Source:
    header, numbered = read_table(path)
    file = next((name for name in COLUMNS["file"] if name in header), None)
    if file is None:
        raise DatasetCorruptError(
            f"Expected {path} to have a column file, but it has: {', '.join(header)}."
        )
    problems = [
        f"{path.name}, row {row}: has {len(cells)} fields, but the header has {len(header)}"
        for row, cells in numbered
        if len(cells) != len(header)
    ]
    rows = [[cell.strip() for cell in cells] for _, cells in numbered if len(cells) == len(header)]
    for name in COLUMNS["mask"]:
        if name in header:
            place = header.index(name)
            if any(cells[place] for cells in rows):
                problems.append(f"{path.name}: has masks in its column {name}; remove the column")
            header = header[:place] + header[place + 1 :]
            rows = [cells[:place] + cells[place + 1 :] for cells in rows]
    complete = all(any(name in header for name in COLUMNS[one]) for one in REQUIRED)
    return Source(path.parent, header, rows, file, complete, problems)


class ImageNames:
    """The images of a folder, found by the names that a tool has for them.

    A tool may know another folder, so that the longest common end of the two paths decides.

    Args:
        files: Paths of the images.

    Example:
        >>> names = ImageNames(["a/1.jpg", "b/1.jpg", "b/2.jpg"])
        >>> names.find("upload/b/1.jpg"), names.find("2.jpg")
        (('b/1.jpg', ''), ('b/2.jpg', ''))
        >>> names.find("1.jpg")[1]
        '1.jpg could be a/1.jpg or b/1.jpg'
    """

    def __init__(self, files: list[str]) -> None:
        self._by_name: dict[str, list[str]] = {}
        for file in dict.fromkeys(files):
            self._by_name.setdefault(PurePosixPath(file).name, []).append(file)

    def find(self, name: str) -> tuple[str | None, str]:
        """Give the image with this name; None and the reason if there is none, or several."""
        path = PurePosixPath(name.replace("\\", "/"))
        candidates = self._by_name.get(path.name, [])
        if not candidates:
            return None, f"{name[:100]} is none of the images"
        common = {file: _common_end(PurePosixPath(file).parts, path.parts) for file in candidates}
        best = [file for file in candidates if common[file] == max(common.values())]
        if len(best) > 1:
            return None, f"{name[:100]} could be {' or '.join(best[:SHOWN])}"
        return best[0], ""


def _common_end(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    pairs = zip(reversed(first), reversed(second), strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
