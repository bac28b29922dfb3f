"""From a row of the table to its image and its mask as tensors."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rightreasons.datasets.image_file import read_image, read_mask
from rightreasons.datasets.manifest import Entry
from rightreasons.errors import DatasetCorruptError

__all__ = ["ImageReader", "collected", "located"]


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
