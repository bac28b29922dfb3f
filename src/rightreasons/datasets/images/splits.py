"""`Splits` from a table of image files, checked, in memory or on disk."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from rightreasons.core.checks import check_choice, check_flag, check_floats, check_integer
from rightreasons.datasets.augmented import Augmented
from rightreasons.datasets.dataset import Card, Dataset, Files, InMemory, Splits, group_counts
from rightreasons.datasets.images.manifest import Manifest
from rightreasons.datasets.images.reader import (
    ImageReader,
    decode_into_memory,
    find_decoding_problems,
    survey,
)
from rightreasons.datasets.images.stream import ImageStream
from rightreasons.errors import DatasetCorruptError, InvalidSettingError

__all__ = [
    "POLARITIES",
    "Reading",
    "augment_training",
    "check_augmentation",
    "check_polarity",
    "check_size",
    "check_value_range",
    "image_splits",
]

POLARITIES = ("irrelevant", "relevant")
MAX_WORKERS = 4
MAX_LINES = 30
BYTES_PER_VALUE = 4


@dataclass(frozen=True)
class Reading:
    """The settings for reading image files.

    Args:
        workers: Number of threads that decode into memory, or of processes that read ahead from
            disk; the number of processors, at most 4, if None.
        in_memory: Whether to decode everything once; ``"auto"``: if it fits into
            ``memory_limit``.
        memory_limit: Bytes of decoded images and masks.
        verify: Whether to decode every file once before training reads from disk.
    """

    workers: int | None = None
    in_memory: bool | Literal["auto"] = "auto"
    memory_limit: int = 2 << 30
    verify: bool = True

    def __post_init__(self) -> None:
        if self.in_memory != "auto" and not isinstance(self.in_memory, bool):
            raise InvalidSettingError(
                f"Expected `in_memory` to be 'auto', True or False, but got {self.in_memory!r}."
            )
        check_integer("memory_limit", self.memory_limit, low=0)
        if self.workers is not None:
            check_integer("workers", self.workers, low=0)
        check_flag("verify", self.verify)

    @property
    def num_workers(self) -> int:
        """The number of threads or processes, with the default filled in."""
        return min(MAX_WORKERS, os.cpu_count() or 1) if self.workers is None else self.workers


def image_splits(
    manifest: Manifest,
    problems: Sequence[str],
    *,
    size: tuple[int, int] | None,
    card: Card,
    reading: Reading,
    channels: int = 3,
    mask_polarity: str = "irrelevant",
    mask_threshold: float | None = None,
    value_range: object = None,
) -> Splits:
    """Read the images of a table; one error lists all problems of the table and the files.

    Splits other than train, val and test become ``more_tests``.

    Args:
        manifest: The table.
        problems: Problems of the table that are already known.
        size: Height and width to resize to; None for the size that all images have.
        card: Description of the data; names, shape and counts are filled in.
        reading: Settings for reading.
        channels: 3 for colour, 1 for grey.
        mask_polarity: What is white in mask files: ``"irrelevant"`` or ``"relevant"`` for the
            label.
        mask_threshold: Grey value above which a mask pixel is white; None keeps soft masks.
        value_range: The values that become 0 and 1, for images with more than 8 bits a channel.

    Raises:
        DatasetCorruptError: One line for each problem.
    """
    workers = reading.num_workers
    values = check_value_range(value_range)
    readable, common_size, file_problems = survey(manifest, size, workers=workers)
    reader = ImageReader(
        root=manifest.root,
        size=common_size or (1, 1),
        channels=channels,
        mask_polarity=mask_polarity,
        mask_threshold=mask_threshold,
        value_range=values,
    )
    known = [*problems, *file_problems]
    if known:
        known += find_decoding_problems(readable, reader, workers=workers)
    _raise_problems(known, manifest)
    manifest = replace(manifest, entries=tuple(readable))
    card = _fill_card(card, manifest, reader)
    fits = _num_bytes(manifest, reader) <= reading.memory_limit
    keep = fits if reading.in_memory == "auto" else reading.in_memory
    load = _load_into_memory if keep else _stream_from_disk
    parts = load(manifest, reader, card, reading)
    train, val, test = parts.pop("train"), parts.pop("val", None), parts.pop("test")
    return Splits(train=train, val=val, test=test, more_tests=parts)


def check_size(size: object) -> tuple[int, int] | None:
    """Check a size: a number of pixels or a pair; return height and width, or None for None."""
    if size is None:
        return None
    sides = (size, size) if isinstance(size, int) else size
    if not isinstance(sides, list | tuple) or len(sides) != 2:
        raise InvalidSettingError(
            f"Expected `size` to be a number of pixels or height and width, but got {size!r}."
        )
    return check_integer("size", sides[0], low=1), check_integer("size", sides[1], low=1)


def check_value_range(value: object) -> tuple[float, float] | None:
    """Check the values that become 0 and 1; None for None."""
    if value is None:
        return None
    numbers = check_floats("value_range", value, least=2)
    if len(numbers) != 2 or not numbers[0] < numbers[1]:
        raise InvalidSettingError(
            f"Expected `value_range` to be two numbers, the lower one first, but got {value!r}."
        )
    return numbers[0], numbers[1]


def check_polarity(polarity: str | None, manifest: Manifest, problems: list[str]) -> str:
    """Give the polarity of masks: the stated one, or the table's; add a problem if neither says it.

    Args:
        polarity: The stated one, or None.
        manifest: The table.
        problems: Lines for problems; one may be added.
    """
    if polarity is not None:
        check_choice("mask_polarity", polarity, POLARITIES)
    said = manifest.mask_polarity
    if said is not None and polarity not in (None, said):
        problems.append(
            f"`mask_polarity` is {polarity!r}, but the table has the column {said}_mask: leave "
            "the setting out"
        )
    if manifest.has_masks and polarity is None and said is None:
        problems.append(
            "`mask_polarity` is not stated, but there are masks: pass 'irrelevant' if white is "
            "what the model must not look at, 'relevant' if white is what it should look at "
            "(--mask-polarity irrelevant)"
        )
    return said or polarity or POLARITIES[0]


def check_augmentation(flip: object, crop: object, seed: object) -> None:
    """Check the settings of `Augmented` before any file is read."""
    check_flag("flip", flip)
    check_integer("crop", crop, low=0)
    check_integer("seed", seed, low=0)


def augment_training(splits: Splits, *, flip: bool, crop: int, seed: int) -> Splits:
    """Augment the training images, if ``flip`` or ``crop`` asks for it."""
    if not (flip or crop):
        return splits
    return replace(splits, train=Augmented(splits.train, flip=flip, crop=crop, seed=seed))


def _raise_problems(problems: list[str], manifest: Manifest) -> None:
    if problems:
        more = len(problems) - MAX_LINES
        own = manifest.origin == "class folders" or "data." in manifest.origin
        where = shlex.quote(str(manifest.root))
        every = f"; `rightreasons data check {where}` lists all" if own else ""
        rest = f"… and {more} more{every}"
        lines = problems[:MAX_LINES] + ([rest] if more > 0 else [])
        listing = "\n".join(f"  {line}" for line in lines)
        raise DatasetCorruptError(
            f"Expected {manifest.root} to hold images as {manifest.origin}, but got "
            f"{len(problems)} problem{'s' if len(problems) > 1 else ''}:\n{listing}"
        )


def _num_bytes(manifest: Manifest, reader: ImageReader) -> int:
    planes = reader.channels + manifest.has_masks
    return len(manifest.entries) * planes * reader.size[0] * reader.size[1] * BYTES_PER_VALUE


def _fill_card(card: Card, manifest: Manifest, reader: ImageReader) -> Card:
    groups = torch.tensor([entry.group for entry in manifest.part("train")])
    return replace(
        card,
        classes=manifest.classes,
        groups=manifest.groups,
        shape=(reader.channels, *reader.size),
        train_group_counts=group_counts(groups, len(manifest.groups)) if manifest.groups else (),
    )


def _load_into_memory(
    manifest: Manifest, reader: ImageReader, card: Card, reading: Reading
) -> dict[str, Dataset]:
    decoded = {
        split: decode_into_memory(
            entries, reader, has_groups=bool(manifest.groups), workers=reading.num_workers
        )
        for split in manifest.splits
        if (entries := manifest.part(split))
    }
    problems = [problem for _, part_problems in decoded.values() for problem in part_problems]
    _raise_problems(problems, manifest)
    return {
        split: InMemory(batch, card, files=_files(manifest, split))
        for split, (batch, _) in decoded.items()
    }


def _files(manifest: Manifest, split: str) -> Files:
    return Files(manifest.root, tuple(entry.file for entry in manifest.part(split)))


def _stream_from_disk(
    manifest: Manifest, reader: ImageReader, card: Card, reading: Reading
) -> dict[str, Dataset]:
    workers = reading.num_workers
    if reading.verify:
        problems = find_decoding_problems(manifest.entries, reader, workers=workers)
        _raise_problems(problems, manifest)
    return {
        split: ImageStream(entries, reader, card, workers=workers)
        for split in manifest.splits
        if (entries := manifest.part(split))
    }
