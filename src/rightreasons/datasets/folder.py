"""The user's own images: a folder of files and a table that says what they are."""

import os
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal

import torch

from rightreasons.datasets.augmented import Augmented
from rightreasons.datasets.dataset import Card, Dataset, InMemory, Splits
from rightreasons.datasets.image_memory import decode_into_memory, decoding_problems
from rightreasons.datasets.image_reader import ImageReader
from rightreasons.datasets.image_stream import ImageStream
from rightreasons.datasets.image_survey import survey
from rightreasons.datasets.manifest import Manifest, read_manifest
from rightreasons.datasets.splitting import group_counts
from rightreasons.errors import DatasetCorruptError, InvalidSettingError
from rightreasons.setting import checked_choice, checked_flag, checked_number

__all__ = ["folder"]

POLARITIES = ("irrelevant", "relevant")
MAX_WORKERS = 4
MAX_LINES = 500
BYTES_PER_VALUE = 4


def folder(
    path: str | PathLike[str],
    *,
    mask_polarity: str | None = None,
    size: int | Sequence[int] | None = None,
    channels: int = 3,
    workers: int | None = None,
    in_memory: bool | Literal["auto"] = "auto",
    memory_limit: int = 2 << 30,
    verify: bool = True,
    flip: bool = False,
    crop: int = 0,
    seed: int = 0,
    card: Card | None = None,
) -> Splits:
    """Your own images: a folder with a table data.csv of file, label and split.

    ``data.csv`` has a header and a row for each image::

        file,label,split,group,mask
        images/001.jpg,cat,train,indoors,masks/001.png
        images/002.jpg,dog,test,outdoors,

    - ``file`` (or ``img_filename``, ``filename``): relative to the folder.
    - ``label`` (or ``y``): names or numbers. The classes are the distinct values, sorted (by
      number if all are numbers), and are numbered from 0 in this order.
    - ``split``: ``train``, ``val`` or ``test``, or 0, 1, 2; ``val`` may be absent.
    - ``group``, optional: names or numbers, sorted likewise; empty is unknown. Without it, an
      attribute ``a`` or ``place`` makes the group ``label * num_attributes + attribute``, as in
      the tables of group DRO and WILDS.
    - ``mask``, optional: a black and white image of the same size as the image, PNG by
      preference; its polarity must be stated. A row without one gets a mask of zeros and
      ``annotated=False``; a split without any has no masks.

    Images are turned upright, converted, resized (which ignores the aspect ratio) and scaled to
    [0, 1]; masks go through the same geometry with the nearest pixel. Every problem of the table
    and the files is reported at once.

    Args:
        path: The folder.
        mask_polarity: What is white in the masks: ``"irrelevant"``, what the model must not look
            at, or ``"relevant"``, what it should look at (inverted here). Needed if there are
            masks.
        size: Side in pixels, or height and width; the images' own if they are all alike.
        channels: 3 for colour, 1 for grey.
        workers: Threads that decode into memory, or processes that read ahead from disk; the
            number of processors, at most 4, if None.
        in_memory: Decode everything once; ``"auto"``: if it fits into ``memory_limit``.
        memory_limit: In bytes of decoded images and masks.
        verify: Decode every file once before streaming from disk, so that damaged ones are found
            now; False finds them in training.
        flip: Mirror training images at random, see `Augmented`.
        crop: Move training images by up to so many pixels at random, see `Augmented`.
        seed: Of the flips and crops.
        card: What to say of the data; names, shape and counts are filled in.

    Raises:
        DatasetNotFoundError: There is no ``data.csv``.
        DatasetCorruptError: One line for each problem, with row and file.
    """
    if mask_polarity is not None:
        checked_choice("mask_polarity", mask_polarity, POLARITIES)
    stated_size = None if size is None else _checked_size(size)
    if channels not in (1, 3):
        raise InvalidSettingError(f"Expected `channels` to be 1 or 3, but got {channels!r}.")
    if in_memory != "auto" and not isinstance(in_memory, bool):
        raise InvalidSettingError(
            f"Expected `in_memory` to be 'auto', True or False, but got {in_memory!r}."
        )
    checked_number("memory_limit", memory_limit, low=0)
    workers = _processors() if workers is None else checked_number("workers", workers, low=0)
    augment = checked_flag("flip", flip) | bool(checked_number("crop", crop, low=0))
    checked_flag("verify", verify)
    checked_number("seed", seed, low=0)
    manifest, problems = read_manifest(Path(path).expanduser())
    if manifest.has_masks and mask_polarity is None:
        problems.append(
            "`mask_polarity` is not stated, but the table has masks: pass 'irrelevant' if white "
            "is what the model must not look at, 'relevant' if white is what it should look at"
        )
    sound, common_size, file_problems = survey(manifest, stated_size, workers=workers)
    reader = ImageReader(
        root=manifest.root,
        size=common_size or (1, 1),
        channels=channels,
        mask_polarity=mask_polarity or POLARITIES[0],
    )
    problems += file_problems
    if problems:
        problems += decoding_problems(sound, reader, workers=workers)
    _raise_all(problems, manifest)
    card = _filled(card or _plain_card(manifest), manifest, reader)
    keep = _num_bytes(manifest, reader) <= memory_limit if in_memory == "auto" else in_memory
    parts = _in_memory if keep else _streamed
    train, val, test = parts(manifest, reader, card, workers=workers, verify=verify)
    if augment:
        train = Augmented(train, flip=flip, crop=crop, seed=seed)
    return Splits(train=train, val=val, test=test)


def _checked_size(size: object) -> tuple[int, int]:
    sides = (size, size) if isinstance(size, int) else size
    if not isinstance(sides, list | tuple) or len(sides) != 2:
        raise InvalidSettingError(
            f"Expected `size` to be a number of pixels or height and width, but got {size!r}."
        )
    return checked_number("size", sides[0], low=1), checked_number("size", sides[1], low=1)


def _processors() -> int:
    return min(MAX_WORKERS, os.cpu_count() or 1)


def _raise_all(problems: list[str], manifest: Manifest) -> None:
    if problems:
        more = len(problems) - MAX_LINES
        lines = problems[:MAX_LINES] + ([f"… and {more} more"] if more > 0 else [])
        listing = "\n".join(f"  {line}" for line in lines)
        raise DatasetCorruptError(
            f"Expected {manifest.root} to hold images as its data.csv says, but got "
            f"{len(problems)} problem{'s' if len(problems) > 1 else ''}:\n{listing}"
        )


def _num_bytes(manifest: Manifest, reader: ImageReader) -> int:
    planes = reader.channels + manifest.has_masks
    return len(manifest.entries) * planes * reader.size[0] * reader.size[1] * BYTES_PER_VALUE


def _plain_card(manifest: Manifest) -> Card:
    return Card(
        name="folder",
        description=f"{len(manifest.entries):,} images from the folder {manifest.root.name!r}.",
        shortcut="what the masks mark" if manifest.has_masks else "unknown",
    )


def _filled(card: Card, manifest: Manifest, reader: ImageReader) -> Card:
    groups = torch.tensor([entry.group for entry in manifest.part("train")])
    return replace(
        card,
        classes=manifest.classes,
        groups=manifest.groups,
        shape=(reader.channels, *reader.size),
        train_group_counts=group_counts(groups, len(manifest.groups)) if manifest.groups else (),
    )


Parts = tuple[Dataset, Dataset | None, Dataset]


def _in_memory(
    manifest: Manifest, reader: ImageReader, card: Card, *, workers: int, verify: bool
) -> Parts:
    del verify  # what is decoded now needs no other check
    decoded = {
        split: decode_into_memory(
            entries, reader, has_groups=bool(manifest.groups), workers=workers
        )
        for split in ("train", "val", "test")
        if (entries := manifest.part(split))
    }
    _raise_all([problem for _, some in decoded.values() for problem in some], manifest)
    parts = {split: InMemory(batch, card) for split, (batch, _) in decoded.items()}
    return parts["train"], parts.get("val"), parts["test"]


def _streamed(
    manifest: Manifest, reader: ImageReader, card: Card, *, workers: int, verify: bool
) -> Parts:
    if verify:
        _raise_all(decoding_problems(manifest.entries, reader, workers=workers), manifest)
    parts = {
        split: ImageStream(entries, reader, card, workers=workers)
        for split in ("train", "val", "test")
        if (entries := manifest.part(split))
    }
    return parts["train"], parts.get("val"), parts["test"]
