"""Readers of image data sets: what a sample is, images decoded into memory, sizes on disk."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rightreasons.datasets.images.files import image_size, read_image, read_mask
from rightreasons.datasets.images.manifest import Entry, Manifest
from rightreasons.datasets.parallel import map_parallel
from rightreasons.errors import DatasetCorruptError
from rightreasons.types import Batch

__all__ = [
    "ImageReader",
    "collected",
    "decode_into_memory",
    "decoding_problems",
    "located",
    "survey",
]


@dataclass(frozen=True)
class ImageReader:
    """Reads the image and the mask of a row, both resized in the same way.

    Args:
        root: What file names are relative to.
        size: Height and width.
        channels: 3 or 1.
        mask_polarity: ``"relevant"`` masks are inverted here, once: from now on 1 is where the
            model must not look.
        mask_threshold: Values above it are white and others black, for masks whose edges were
            blurred by JPEG; None keeps soft masks.
    """

    root: Path
    size: tuple[int, int]
    channels: int
    mask_polarity: str
    mask_threshold: float | None = None

    def image(self, entry: Entry) -> Tensor:
        """The image of a row, ``(C, H, W)`` in [0, 1]."""
        with located(entry, entry.file):
            return read_image(self.root / entry.file, size=self.size, channels=self.channels)

    def mask(self, entry: Entry) -> Tensor:
        """The mask of a row, ``(1, H, W)``; zeros if it names none."""
        if not entry.mask:
            return torch.zeros(1, *self.size)
        with located(entry, f"mask {entry.mask}"):
            mask = read_mask(self.root / entry.mask, size=self.size)
        if self.mask_threshold is not None:
            mask = (mask > self.mask_threshold).float()
        return 1 - mask if self.mask_polarity == "relevant" else mask


@contextmanager
def collected(problems: list[str]) -> Iterator[None]:
    """Keep the message of a `DatasetCorruptError` and go on."""
    try:
        yield
    except DatasetCorruptError as error:
        problems.append(str(error))


@contextmanager
def located(entry: Entry, file: str) -> Iterator[None]:
    """Put row and file before the reason why a file cannot be read."""
    try:
        yield
    except DatasetCorruptError as error:
        raise DatasetCorruptError(f"row {entry.row}, {file}: {error}") from error


def decode_into_memory(
    entries: Sequence[Entry], reader: ImageReader, *, has_groups: bool, workers: int
) -> tuple[Batch, list[str]]:
    """Decode rows into one batch; the batch holds blanks where there is a problem.

    Args:
        entries: The rows.
        reader: What turns a row into tensors.
        has_groups: Whether the batch carries the groups of the rows.
        workers: How many threads decode.

    Returns:
        The batch and a line for every problem.
    """
    x = torch.zeros(len(entries), reader.channels, *reader.size)
    has_masks = any(entry.mask for entry in entries)
    mask = torch.zeros(len(entries), 1, *reader.size) if has_masks else None

    def decode(place: int) -> list[str]:
        problems = list[str]()
        with collected(problems):
            x[place] = reader.image(entries[place])
        if mask is not None:
            with collected(problems):
                mask[place] = reader.mask(entries[place])
        return problems

    found = map_parallel(decode, len(entries), workers=workers, description="decoding images")
    batch = Batch.trusted(
        x=x,
        y=torch.tensor([entry.label for entry in entries]),
        mask=mask,
        annotated=torch.tensor([bool(entry.mask) for entry in entries]) if has_masks else None,
        group=torch.tensor([entry.group for entry in entries]) if has_groups else None,
    )
    return batch, [problem for some in found for problem in some]


def decoding_problems(entries: Sequence[Entry], reader: ImageReader, *, workers: int) -> list[str]:
    """Decode rows and forget them: a line for every file that cannot be."""

    def verify(place: int) -> list[str]:
        problems = list[str]()
        with collected(problems):
            reader.image(entries[place])
        with collected(problems):
            reader.mask(entries[place])
        return problems

    found = map_parallel(verify, len(entries), workers=workers, description="checking images")
    return [problem for some in found for problem in some]


def survey(
    manifest: Manifest, stated: tuple[int, int] | None, *, workers: int
) -> tuple[list[Entry], tuple[int, int] | None, list[str]]:
    """Open the files of all rows and see whether they fit together, without decoding them.

    Args:
        manifest: The table.
        stated: The height and width to resize to; None to find the one all images have.
        workers: How many threads look.

    Returns:
        The rows whose files can be opened, the size all images will have (None if nobody knows),
        and a line for every problem.
    """
    named = [entry for entry in manifest.entries if entry.file]
    found = map_parallel(
        lambda place: _size_on_disk(manifest.root, named[place]),
        len(named),
        workers=workers,
        description="looking at images",
    )
    problems = [problem for _, some in found for problem in some]
    sound = [entry for entry, (_, some) in zip(named, found, strict=True) if not some]
    if stated is not None:
        return sound, stated, problems
    first_rows: dict[tuple[int, int], int] = {}
    for entry, (size, _) in zip(named, found, strict=True):
        if size is not None:
            first_rows.setdefault(size, entry.row)
    if len(first_rows) > 1:
        examples = [f"{h}x{w} in row {row}" for (h, w), row in first_rows.items()]
        problems.append(
            f"the images have {len(first_rows)} different sizes ({', '.join(examples[:3])}): "
            "pass `size`, a number of pixels or height and width, to resize them"
        )
    return sound, next(iter(first_rows), None), problems


def _size_on_disk(root: Path, entry: Entry) -> tuple[tuple[int, int] | None, list[str]]:
    """Height and width of the image of a row (None if unreadable), and what is wrong with it.

    Looks at headers only: at the image's and, if the row names one, at the mask's, which must have
    the same size.
    """
    size, mask_size, problems = None, None, list[str]()
    with collected(problems), located(entry, entry.file):
        size = image_size(root / entry.file)
    if entry.mask:
        with collected(problems), located(entry, f"mask {entry.mask}"):
            mask_size = image_size(root / entry.mask)
    if size and mask_size and size != mask_size:
        problems.append(
            f"row {entry.row}, mask {entry.mask}: has {mask_size[0]}x{mask_size[1]} pixels, but "
            f"its image {entry.file} has {size[0]}x{size[1]}"
        )
    return size, problems
