"""Images and masks of table rows: read one, decode all into memory, check the files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from rightreasons.core.progress import map_parallel
from rightreasons.datasets.images.files import (
    SIDEWAYS,
    image_size,
    read_mask,
    read_pixels,
    scale_pixels,
    stored_size,
)
from rightreasons.datasets.images.manifest import Entry, Manifest
from rightreasons.errors import DatasetCorruptError
from rightreasons.types import Batch

__all__ = [
    "ImageReader",
    "collect_problems",
    "decode_into_memory",
    "find_decoding_problems",
    "locate_problems",
    "survey",
]


@dataclass(frozen=True)
class ImageReader:
    """A reader for the image and the mask of a row, both resized in the same way.

    Args:
        root: Folder of the files; file names are relative to it.
        size: Height and width.
        channels: 3 or 1.
        mask_polarity: What is white in the files. ``"relevant"`` masks are inverted here, so that
            1 is where the model must not look.
        mask_threshold: Values above it become 1 and the others 0, for masks that JPEG blurred at
            the edges; None keeps soft masks.
        value_range: The values that become 0 and 1, for images with more than 8 bits a channel.
    """

    root: Path
    size: tuple[int, int]
    channels: int
    mask_polarity: str
    mask_threshold: float | None = None
    value_range: tuple[float, float] | None = None

    def image(self, entry: Entry) -> Tensor:
        """Read the image of a row, ``(C, H, W)`` in [0, 1]."""
        return scale_pixels(self._pixels(entry)[None])[0]

    def pixels(self, entries: Sequence[Entry]) -> Tensor:
        """Read the images of some rows; `scale_pixels` makes ``(N, C, H, W)`` in [0, 1] of them."""
        pixels = [self._pixels(entry) for entry in entries]
        if len({one.dtype for one in pixels}) > 1:  # some have more than 8 bits
            return torch.cat([scale_pixels(one[None]) for one in pixels])
        return torch.stack(pixels)

    def _pixels(self, entry: Entry) -> Tensor:
        with locate_problems(entry, entry.file):
            return read_pixels(
                self.root / entry.file,
                size=self.size,
                channels=self.channels,
                value_range=self.value_range,
            )

    def mask(self, entry: Entry) -> Tensor:
        """Read the mask of a row, ``(1, H, W)``; zeros if the row has no mask file."""
        if not entry.mask:
            return torch.zeros(1, *self.size)
        with locate_problems(entry, f"mask {entry.mask}"):
            mask = read_mask(self.root / entry.mask, size=self.size, turn=entry.turn)
        if self.mask_threshold is not None:
            mask = (mask > self.mask_threshold).float()
        return 1 - mask if self.mask_polarity == "relevant" else mask


@contextmanager
def collect_problems(problems: list[str]) -> Iterator[None]:
    """Append the message of a `DatasetCorruptError` to a list instead of raising it."""
    try:
        yield
    except DatasetCorruptError as error:
        problems.append(str(error))


@contextmanager
def locate_problems(entry: Entry, file: str) -> Iterator[None]:
    """Put row and file before the message of a `DatasetCorruptError`."""
    try:
        yield
    except DatasetCorruptError as error:
        raise DatasetCorruptError(f"row {entry.row}, {file}: {error}") from error


def decode_into_memory(
    entries: Sequence[Entry], reader: ImageReader, *, has_groups: bool, workers: int
) -> tuple[Batch, list[str]]:
    """Decode rows into one batch; images that cannot be read are zeros.

    Args:
        entries: The rows.
        reader: Reader of images and masks.
        has_groups: Whether the batch has the groups of the rows.
        workers: Number of threads.

    Returns:
        The batch and one line for every problem.
    """
    x = torch.zeros(len(entries), reader.channels, *reader.size)
    has_masks = any(entry.mask for entry in entries)
    mask = torch.zeros(len(entries), 1, *reader.size) if has_masks else None

    def decode(index: int) -> list[str]:
        problems = list[str]()
        with collect_problems(problems):
            x[index] = reader.image(entries[index])
        if mask is not None:
            with collect_problems(problems):
                mask[index] = reader.mask(entries[index])
        return problems

    problems = map_parallel(decode, len(entries), workers=workers, description="decoding images")
    batch = Batch.trusted(
        x=x,
        y=torch.tensor([entry.label for entry in entries]),
        mask=mask,
        annotated=torch.tensor([bool(entry.mask) for entry in entries]) if has_masks else None,
        group=torch.tensor([entry.group for entry in entries]) if has_groups else None,
    )
    return batch, list(chain.from_iterable(problems))


def find_decoding_problems(
    entries: Sequence[Entry], reader: ImageReader, *, workers: int
) -> list[str]:
    """Decode all files of some rows; return one line for every file that cannot be read."""

    def verify(index: int) -> list[str]:
        problems = list[str]()
        with collect_problems(problems):
            reader.image(entries[index])
        with collect_problems(problems):
            reader.mask(entries[index])
        return problems

    problems = map_parallel(verify, len(entries), workers=workers, description="checking images")
    return list(chain.from_iterable(problems))


def survey(
    manifest: Manifest, stated: tuple[int, int] | None, *, workers: int
) -> tuple[list[Entry], tuple[int, int] | None, list[str]]:
    """Read the headers of all files and check the sizes, without decoding.

    Args:
        manifest: The table.
        stated: The height and width to resize to; None for the size that all images have.
        workers: Number of threads.

    Returns:
        The rows whose files can be opened, the size of all images (None if unknown), and one line
        for every problem. A row whose mask is stored as its image is, and not upright, says so.
    """
    named = [entry for entry in manifest.entries if entry.file]
    headers = map_parallel(
        lambda index: _check_headers(manifest.root, named[index]),
        len(named),
        workers=workers,
        description="looking at images",
    )
    problems = [problem for _, _, row_problems in headers for problem in row_problems]
    readable = [
        entry if turn == 1 else replace(entry, turn=turn)
        for entry, (_, turn, row_problems) in zip(named, headers, strict=True)
        if not row_problems
    ]
    if stated is not None:
        return readable, stated, problems
    first_rows: dict[tuple[int, int], int] = {}
    for entry, (size, _, _) in zip(named, headers, strict=True):
        if size is not None:
            first_rows.setdefault(size, entry.row)
    if len(first_rows) > 1:
        examples = [f"{h}x{w} in row {row}" for (h, w), row in first_rows.items()]
        problems.append(
            f"the images have {len(first_rows)} different sizes ({', '.join(examples[:3])}): "
            "pass `size`, a number of pixels or height and width, to resize them"
        )
    return readable, next(iter(first_rows), None), problems


def _check_headers(root: Path, entry: Entry) -> tuple[tuple[int, int] | None, int, list[str]]:
    """Check the sizes of a row's image and mask.

    The mask has the size of the upright image. It may also be stored as the image is, to be
    turned by the image's orientation tag.

    Returns:
        Height and width of the upright image (None if unreadable), the orientation tag by which
        the mask is turned, and a line for every problem.
    """
    size, mask_size, turn, problems = None, None, 1, list[str]()
    with collect_problems(problems), locate_problems(entry, entry.file):
        stored, orientation = stored_size(root / entry.file)
        size = stored[::-1] if orientation in SIDEWAYS else stored
    if entry.mask:
        with collect_problems(problems), locate_problems(entry, f"mask {entry.mask}"):
            mask_size = image_size(root / entry.mask)
    if size and mask_size and size != mask_size:
        if mask_size == stored:
            turn = orientation
        else:
            problems.append(
                f"row {entry.row}, mask {entry.mask}: has {mask_size[0]}x{mask_size[1]} pixels, "
                f"but its image {entry.file} has {size[0]}x{size[1]}"
            )
    return size, turn, problems
