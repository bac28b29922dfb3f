"""What the rows of a table tell alone: labels, splits, groups, and columns that tell the label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rightreasons.datasets.images.manifest import Entry, Manifest

__all__ = [
    "KINDS",
    "DataProblem",
    "find_column_problems",
    "find_group_problems",
    "find_row_problems",
    "measure_telling",
]

KINDS = {
    "table": "the table cannot be read",
    "fields": "a row has more or fewer fields than the header",
    "no-file": "a row names no file",
    "duplicate-row": "a file is listed twice",
    "no-label": "a row has no label",
    "label-spelling": "labels differ by capitals or spaces only",
    "untrained-label": "a label does not occur in training",
    "label-conflict": "the same image has two labels",
    "split": "a split is none of train, val, test",
    "no-split": "there is nothing to train or to test on",
    "missing-image": "an image is not there",
    "truncated-image": "an image ends too early",
    "unreadable-image": "an image cannot be read",
    "bomb": "an image claims to be so large that it could fill the memory",
    "blank-image": "an image has one colour",
    "missing-mask": "a mask is not there",
    "unreadable-mask": "a mask cannot be read",
    "unused-mask": "a mask belongs to no image",
    "mask-size": "a mask has another size than its image",
    "empty-mask": "a mask marks nothing",
    "full-mask": "a mask marks everything",
    "inverted-mask": "a mask looks inverted beside the others",
    "same-image": "the same image is in two splits",
    "near-image": "nearly the same image is in two splits",
    "small-group": "a group is too small to be measured",
    "imbalance": "a class is much rarer than another",
    "constant-column": "a column has one value only",
    "telling-column": "a column tells the label",
}
MEASURED = ("val", "test")
NUM_BINS = 10
TELLING = 0.7
FEWEST_ROWS = 20
IMPLICIT = ("file type", "image size")  # which may well be constant


@dataclass(frozen=True)
class DataProblem:
    """One problem of the data.

    Args:
        kind: A key of `KINDS`.
        message: What is wrong, without a full stop.
        file: The file, or the table; relative to the folder.
        row: The row of the table, as a spreadsheet counts; None without a table.
    """

    kind: str
    message: str
    file: str
    row: int | None = None

    def __str__(self) -> str:
        place = self.file if self.row is None else f"row {self.row}, {self.file}"
        return f"{place}: {self.message}"


def find_row_problems(
    manifest: Manifest, table: str, known: set[int | None]
) -> Iterator[DataProblem]:
    """Problems of files, labels and splits; ``known`` rows have their own problem already."""
    first: dict[str, int] = {}
    for entry in manifest.entries:
        if entry.row in known:
            continue
        if not entry.file:
            yield DataProblem("no-file", "names no file", table, entry.row)
        elif (before := first.setdefault(str(Path(entry.file)), entry.row)) != entry.row:
            words = f"is listed in row {before} already"
            yield DataProblem("duplicate-row", words, entry.file, entry.row)
        if entry.label < 0:
            yield DataProblem("no-label", "has no label", entry.file, entry.row)
        if not entry.split:
            words = "has a split other than train, val, test, 0, 1 and 2"
            yield DataProblem("split", words, entry.file, entry.row)
    for split in ("train", "test"):
        if not manifest.part(split):
            yield DataProblem("no-split", f"no row has the split {split!r}", table, 1)
    trained = {entry.label for entry in manifest.part("train")}
    counts = Counter(entry.label for entry in manifest.entries)
    spelled: dict[str, str] = {}  # the usual spelling comes first
    for number in sorted(range(len(manifest.classes)), key=lambda label: -counts[label]):
        name = manifest.classes[number]
        place = next(entry for entry in manifest.entries if entry.label == number)
        other = spelled.setdefault("".join(name.lower().split()), name)
        if other != name:
            words = f"has the label {name!r}, which differs from {other!r} by its spelling only"
            yield DataProblem("label-spelling", words, place.file, place.row)
        elif trained and number not in trained:
            words = f"has the label {name!r}, which does not occur in training"
            yield DataProblem("untrained-label", words, place.file, place.row)


def find_group_problems(manifest: Manifest, least: int, most: int) -> list[DataProblem]:
    """Groups that are too small to measure, and classes that are rare in training."""
    problems = []
    named = bool(manifest.groups)
    names = manifest.groups if named else manifest.classes

    def number(entry: Entry) -> int:
        return entry.group if named else entry.label

    for split in MEASURED:
        # A split whose groups nobody knows is not measured by groups.
        known = [entry for entry in manifest.part(split) if number(entry) >= 0]
        counts = Counter(number(entry) for entry in known)
        for group, name in enumerate(names):
            place = next((one for one in manifest.entries if number(one) == group), None)
            if counts and place is not None and counts[group] < least:
                words = (
                    f"is of the {'group' if named else 'class'} {name!r}, which has "
                    f"{counts[group]} samples in the split {split!r}; {least} are needed to "
                    "measure it"
                )
                problems.append(DataProblem("small-group", words, place.file, place.row))
    sizes = Counter(entry.label for entry in manifest.part("train") if entry.label >= 0)
    for label, count in sorted(sizes.items()):
        if count * most < max(sizes.values()):
            place = next(entry for entry in manifest.part("train") if entry.label == label)
            words = (
                f"is of the class {manifest.classes[label]!r}, which has {count} training samples; "
                f"another class has {max(sizes.values())}"
            )
            problems.append(DataProblem("imbalance", words, place.file, place.row))
    return problems


def find_column_problems(
    columns: Mapping[str, Mapping[int, str]], labels: Mapping[int, int], num_classes: int
) -> list[tuple[str, str]]:
    """Find constant columns, and columns that tell the label of training samples.

    Args:
        columns: Values by column and row.
        labels: Labels of the training samples by row.
        num_classes: Number of classes.

    Returns:
        A kind and a message for each problem.
    """
    problems = []
    for name, cells in columns.items():
        values = set(cells.values())
        if len(values) == 1 and len(cells) > 1:
            if name not in IMPLICIT:
                words = f"the column {name!r} has the value {next(iter(values))!r} in every row"
                problems.append(("constant-column", words))
            continue
        rows = [row for row in labels if cells.get(row)]
        if len(rows) < FEWEST_ROWS:
            continue
        score = measure_telling([cells[row] for row in rows], [labels[row] for row in rows])
        if score >= TELLING:
            words = (
                f"the {name if name in IMPLICIT else f'column {name!r}'} tells the label of "
                f"training samples (score {score:.2f}; 0 is chance, 1 is always): the model may "
                "learn what it stands for"
            )
            problems.append(("telling-column", words))
    return problems


def measure_telling(values: list[str], labels: list[int]) -> float:
    """How well a value tells the label: balanced accuracy, from 0 (chance) to 1 (always).

    Each sample gets the most frequent label of the *other* samples with its value, so that a
    column of names tells nothing. A class of one sample does not count. Numbers with many values
    are put into ten bins of equal count.

    Example:
        >>> measure_telling(["a", "a", "b", "b"], [0, 0, 1, 1])
        1.0
        >>> measure_telling(["a", "b", "c", "d"], [0, 0, 1, 1])
        0.0
    """
    classes = [label for label, count in Counter(labels).items() if count > 1]
    if len(classes) < 2:
        return 0.0
    binned = _bin_numbers(values)
    counts: dict[str, Counter[int]] = {}
    for value, label in zip(binned, labels, strict=True):
        counts.setdefault(value, Counter())[label] += 1
    right: Counter[int] = Counter()
    for value, label in zip(binned, labels, strict=True):
        others = counts[value].copy()
        others[label] -= 1
        best = max(others.values())
        right[label] += best > 0 and others[label] == best
    accuracy = float(np.mean([right[label] / labels.count(label) for label in classes]))
    chance = 1 / len(classes)
    return max(0.0, (accuracy - chance) / (1 - chance))


def _bin_numbers(values: list[str]) -> list[str]:
    if len(set(values)) <= NUM_BINS:
        return values
    with suppress(ValueError):
        numbers = np.array([float(value) for value in values])
        edges = np.quantile(numbers, np.linspace(0, 1, NUM_BINS + 1)[1:-1])
        return [str(place) for place in np.searchsorted(edges, numbers)]
    return values
