"""CelebA-Hair: blond or dark hair, which the sex tells in training."""

import csv
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.checks import check_choice, check_integer
from rightreasons.datasets.dataset import (
    Card,
    Dataset,
    Splits,
    TransformedDataset,
    group_counts,
)
from rightreasons.datasets.images.archives import JpegArchive
from rightreasons.datasets.images.manifest import Entry, Manifest, read_manifest
from rightreasons.datasets.images.pixels import PixelMemory
from rightreasons.datasets.images.splits import (
    Reading,
    augment_training,
    check_augmentation,
    check_size,
    image_splits,
)
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError
from rightreasons.types import Batch

__all__ = ["SUFFIXES", "SameMask", "celeba_hair", "read_celeba_column"]

CARD = Card(
    name="celeba_hair",
    description="Faces of celebrities: is the hair blond?",
    source="CelebA, Z. Liu et al. 2015; task and groups of S. Sagawa et al. 2020",
    licence="non-commercial research",
    shortcut="One in a hundred training faces is a man with blond hair: most blond ones are women.",
)
SUFFIXES = (".csv", ".txt")  # of Kaggle and WILDS; of the original publication
ATTRIBUTES, SPLITS, IMAGES = "list_attr_celeba", "list_eval_partition", "img_align_celeba"
METADATA = "metadata.csv"
FOLDERS = (  # of the user, of WILDS, of group DRO, of torchvision
    Path(),
    Path("celebA_v1.0"),
    Path("data"),
    Path("celeba"),
)
ARCHIVE = "celeba_64.npz"
PARTS = ("train", "val", "test")  # 0, 1, 2
CLASSES = ("dark", "blond")
MASKS = ("none", "face")
FRAME = (218, 178)  # height and width of the aligned images
CUT = 20  # rows above the square in the middle, which the archive shows
FACE = (130, 89, 46, 36)  # row and column of an ellipse's centre, its half height and half width
GROUPS = ("dark, female", "dark, male", "blond, female", "blond, male")


def celeba_hair(
    data_dir: str | PathLike[str],
    *,
    size: int = 224,
    mask: str = "none",
    seed: int = 0,
    flip: bool = False,
    crop: int = 0,
    in_memory: bool | Literal["auto"] = "auto",
    workers: int | None = None,
    verify: bool = False,
) -> Splits:
    """CelebA-Hair: blond or dark hair, which the sex tells in training.

    The folder as WILDS, group DRO or torchvision leave it, itself or one level above::

        list_attr_celeba.csv       image_id,…,Blond_Hair,…,Male,…    -1 or 1; or .txt as published
        list_eval_partition.csv    image_id,partition                0, 1, 2 train, validate, test
        img_align_celeba/000001.jpg

    In place of both tables there may be group DRO's ``metadata.csv``, as Waterbirds has it::

        metadata.csv               img_id,img_filename,y,split,place    y 1 is blond, place 1 a man

    The label is 1 for blond hair, the group ``2 * label + male``. Images are resized, which
    ignores the aspect ratio, and scaled to [0, 1].

    If there are no such tables, ``celeba_64.npz`` is read: 12,379 of the faces, the middle square
    in 64 pixels, in parts of its own that share no person.

    Differs from the paper: group DRO crops the middle square first.

    Args:
        data_dir: The folder.
        size: Side in pixels.
        mask: ``"none"``, or ``"face"``: the same ellipse in every image, from the eyebrows to the
            chin. CelebA has no outlines, but its faces are aligned: the ellipse covers most of a
            face and little hair. It misses faces that look aside, and beards below it.
        seed: Random seed for the flips and crops.
        flip: Whether to mirror training images at random, as in `Augmented`.
        crop: Largest random shift of training images in pixels, as in `Augmented`.
        in_memory: Whether to decode everything once; ``"auto"``: if it fits into 2 GiB. The
            archive is always decoded once.
        workers: Number of threads or processes that decode; the number of processors, at most 4,
            if None.
        verify: Whether to decode every file once before training reads from disk; if False,
            damaged files are found in training.

    Raises:
        DatasetNotFoundError: The tables are not there.
        DatasetCorruptError: The tables contradict each other, or files cannot be read; one line
            for each problem.

    References:
        liu2015deep, sagawa2020distributionally
    """
    stated_size = check_size(size)
    reading = Reading(workers=workers, in_memory=in_memory, verify=verify)
    check_choice("mask", mask, MASKS)
    check_augmentation(flip, crop, seed)
    root = Path(data_dir).expanduser()
    tables = _find_tables(root)
    if not tables:
        check_integer("size", size)
        splits = _read_archive(root / ARCHIVE, size)
    else:
        manifest, problems = _read_metadata(*tables) if len(tables) == 1 else _join_tables(*tables)
        splits = image_splits(manifest, problems, size=stated_size, card=CARD, reading=reading)
    if mask == "face":
        inside = _draw_face(splits.card.shape[1:], whole=bool(tables))
        splits = Splits(
            train=SameMask(splits.train, inside),
            val=None if splits.val is None else SameMask(splits.val, inside),
            test=SameMask(splits.test, inside),
        )
    return augment_training(splits, flip=flip, crop=crop, seed=seed)


def read_celeba_column(path: Path, columns: list[str]) -> dict[str, list[int]]:
    """Read some columns of a table, by the name of the image.

    Args:
        path: A ``.csv`` file with a header, or a ``.txt`` file with columns separated by spaces. A
            ``.txt`` table of attributes begins with a count and a header; a ``.txt`` table of
            splits has neither.
        columns: Names in the header; for a table without a header, the names of its columns.

    Raises:
        DatasetCorruptError: A column is missing or holds something else than whole numbers.
    """
    try:
        rows = _comma_rows(path) if path.suffix == ".csv" else _space_rows(path, columns)
        header = next(rows, [])
        numbers = [header.index(name) for name in columns]
        values = {row[0]: [int(row[number]) for number in numbers] for row in rows}
        if not values:
            raise ValueError("it has no rows")
    except (OSError, UnicodeDecodeError, csv.Error, ValueError, IndexError) as error:
        raise DatasetCorruptError(
            f"Expected {path} to be CelebA's table with whole numbers in {', '.join(columns)}, but "
            f"got: {error}. Copy it anew."
        ) from error
    return values


class SameMask(TransformedDataset):
    """Images that all have the same mask.

    Args:
        base: Images ``(C, H, W)`` without masks.
        mask: ``(1, H, W)``, 1 where the model must not look.
    """

    def __init__(self, base: Dataset, mask: Tensor) -> None:
        super().__init__(base)
        self.mask = mask

    @property
    @override
    def has_masks(self) -> bool:
        return True

    @override
    def digest(self) -> str:
        content = self.mask.numpy().tobytes()
        return hashlib.sha256(f"{self.base.digest()} masked".encode() + content).hexdigest()

    @override
    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        everyone = torch.ones(len(indices), dtype=torch.bool)
        mask = self.mask.to(batch.x.device).expand(len(indices), -1, -1, -1)
        return batch.with_(mask=mask, annotated=everyone)


def _find_tables(above: Path) -> list[Path]:
    """Find the two tables, or the one of group DRO; none if there is the archive alone."""
    for folder in FOLDERS:
        for suffix in SUFFIXES:
            paths = [above / folder / f"{name}{suffix}" for name in (ATTRIBUTES, SPLITS)]
            if all(path.is_file() for path in paths):
                return paths
        if (above / folder / METADATA).is_file():
            return [above / folder / METADATA]
    if (above / ARCHIVE).is_file():
        return []
    raise DatasetNotFoundError(
        f"Expected CelebA in {above}, but found no {ATTRIBUTES} and {SPLITS}, both as "
        f"{' or as '.join(SUFFIXES)}, and no {METADATA}, there or in "
        f"{', '.join(map(str, FOLDERS[1:]))}, and no {ARCHIVE}. Unpack the tables and {IMAGES} "
        "there."
    )


def _read_metadata(path: Path) -> tuple[Manifest, list[str]]:
    """Read group DRO's table; its names of files may leave out the folder of the images."""
    manifest, problems = read_manifest(path.parent, table=path.name)
    if manifest.classes != ("0", "1") or len(manifest.groups) != len(GROUPS):
        raise DatasetCorruptError(
            f"Expected {path} to have labels `y` and sexes `place` that are 0 or 1, both of each, "
            f"but got the labels {', '.join(manifest.classes)} and the groups "
            f"{'; '.join(manifest.groups) or 'none'}. Is it CelebA?"
        )
    entries = tuple(
        entry if "/" in entry.file else replace(entry, file=f"{IMAGES}/{entry.file}")
        for entry in manifest.entries
    )
    return replace(manifest, entries=entries, classes=CLASSES, groups=GROUPS), problems


def _join_tables(attributes: Path, splits: Path) -> tuple[Manifest, list[str]]:
    faces = read_celeba_column(attributes, ["Blond_Hair", "Male"])
    parts = {name: row[0] for name, row in read_celeba_column(splits, ["partition"]).items()}
    entries, problems = list[Entry](), list[str]()
    for row, (name, values) in enumerate(faces.items(), start=1):
        blond, male = (int(value == 1) for value in values)
        part = parts.get(name, -1)
        if part not in range(len(PARTS)) or not {*values} <= {-1, 0, 1}:
            got = f"the partition {parts.get(name, 'nowhere')} and the attributes {values}"
            problems.append(f"row {row}, {name}: has {got}, expected 0, 1 or 2 and 1 or -1")
            continue
        entries.append(
            Entry(
                row=row,
                file=f"{IMAGES}/{name}",
                split=PARTS[part],
                label=blond,
                group=2 * blond + male,
                mask="",
            )
        )
    for split in ("train", "test"):
        if not any(entry.split == split for entry in entries):
            problems.append(f"no face is in the part {split!r}")
    origin = f"{attributes.name} and {splits.name} say"
    manifest = Manifest(attributes.parent, tuple(entries), CLASSES, GROUPS, origin=origin)
    return manifest, problems


def _read_archive(path: Path, size: int) -> Splits:
    archive = JpegArchive(path, columns=["y", "male", "split"])
    y, male = (torch.from_numpy(archive.columns[name].astype(np.int64)) for name in ("y", "male"))
    group = 2 * y + male
    rows = [np.flatnonzero(archive.columns["split"] == number) for number in range(len(PARTS))]
    card = replace(
        CARD,
        source=f"{CARD.source}; here from {path.name}",
        classes=CLASSES,
        groups=GROUPS,
        shape=(3, size, size),
        train_group_counts=group_counts(group[rows[0]], len(GROUPS)),
    )
    parts = [
        PixelMemory(
            torch.from_numpy(archive.images(one, size=size)).permute(0, 3, 1, 2).contiguous(),
            y[one],
            card,
            group[one],
        )
        for one in rows
    ]
    train, val, test = parts
    return Splits(train=train, val=val, test=test)


def _draw_face(shape: Sequence[int], *, whole: bool) -> Tensor:
    """Draw the ellipse, ``(1, H, W)``, into whole images or into their middle squares."""
    height, width = shape
    top, seen = (0, FRAME[0]) if whole else (CUT, FRAME[1])
    rows = (torch.arange(height) + 0.5) * seen / height + top
    columns = (torch.arange(width) + 0.5) * FRAME[1] / width
    row, column, half_height, half_width = FACE
    distance = ((rows[:, None] - row) / half_height) ** 2 + ((columns - column) / half_width) ** 2
    return (distance <= 1).float().unsqueeze(0)


def _comma_rows(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        yield from (row for row in csv.reader(lines, strict=True) if row)


def _space_rows(path: Path, columns: list[str]) -> Iterator[list[str]]:
    with path.open(encoding="utf-8") as lines:
        rows = [line.split() for line in lines if line.strip()]
    if len(rows) > 1 and len(rows[0]) == 1:  # a count, then the names of all columns but the first
        yield ["image_id", *rows[1]]
        yield from rows[2:]
    else:
        yield ["image_id", *columns]
        yield from rows
