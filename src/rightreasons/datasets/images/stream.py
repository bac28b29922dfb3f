"""Images that stay on disk and are decoded when a batch is taken."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.progress import progress, read_ahead
from rightreasons.datasets.dataset import Card, Dataset
from rightreasons.datasets.images.files import scale_pixels
from rightreasons.datasets.images.manifest import Entry
from rightreasons.datasets.images.reader import ImageReader
from rightreasons.errors import DatasetNotFoundError
from rightreasons.types import Batch

__all__ = ["ImageStream"]


class ImageStream(Dataset):
    """Images on disk, read ahead by worker processes.

    Args:
        entries: The rows of a table, at least one.
        reader: Reader of images and masks.
        card: Description of the data.
        workers: Number of processes that read batches ahead; 0 for none.
    """

    def __init__(
        self, entries: Sequence[Entry], reader: ImageReader, card: Card, *, workers: int = 0
    ) -> None:
        self.entries = tuple(entries)
        self.reader = reader
        self.card = card
        self.workers = workers
        self._has_masks = any(entry.mask for entry in self.entries)
        self._labels = torch.tensor([entry.label for entry in self.entries])
        self._groups = torch.tensor([entry.group for entry in self.entries])
        self._annotated = torch.tensor([bool(entry.mask) for entry in self.entries])
        self._digest: str | None = None

    def __len__(self) -> int:
        return len(self.entries)

    @override
    def take(self, rows: Tensor) -> Batch:
        return self._scaled(self._take_pixels(rows))

    def _take_pixels(self, rows: Tensor) -> Batch:
        """A batch with 8-bit pixels, a quarter of the size, on its way between processes."""
        entries = [self.entries[row] for row in rows.tolist()]
        masks = self._has_masks
        return Batch.trusted(
            x=self.reader.pixels(entries),
            y=self._labels[rows],
            mask=torch.stack([self.reader.mask(entry) for entry in entries]) if masks else None,
            annotated=self._annotated[rows] if masks else None,
            group=self._groups[rows] if self.card.groups else None,
            index=rows,
        )

    @property
    @override
    def labels(self) -> Tensor:
        return self._labels

    @property
    @override
    def groups(self) -> Tensor | None:
        return self._groups if self.card.groups else None

    @property
    @override
    def has_masks(self) -> bool:
        return self._has_masks

    def digest(self) -> str:
        """A SHA-256 of all files, labels and groups; reads every file, the first time."""
        if self._digest is None:
            reader = self.reader
            settings = (reader.size, reader.channels, reader.mask_polarity, reader.mask_threshold)
            scaled = "" if reader.value_range is None else f" {reader.value_range}"
            sha = hashlib.sha256(f"{settings}{scaled}".encode())
            with progress("hashing images", total=len(self)) as advance:
                for entry in self.entries:
                    sha.update(repr((entry.label, entry.group)).encode())
                    sha.update(self._hash_file(entry.file))
                    sha.update(self._hash_file(entry.mask) if entry.mask else b"no mask")
                    advance(1)
            self._digest = sha.hexdigest()
        return self._digest

    def batches(self, rows: Iterable[Tensor]) -> Iterator[Batch]:
        """Yield one batch for each tensor of indices; the workers end with the iterator."""
        for batch in read_ahead(self._take_pixels, rows, workers=self.workers):
            yield self._scaled(batch)

    @staticmethod
    def _scaled(batch: Batch) -> Batch:
        return batch.with_(x=scale_pixels(batch.x))

    def _hash_file(self, name: str) -> bytes:
        path = self.reader.root / name
        try:
            return hashlib.sha256(path.read_bytes()).digest()
        except OSError as error:
            raise DatasetNotFoundError(
                f"Expected the file {path}, which was there when the data were loaded, but got: "
                f"{error}. Load the data again."
            ) from error
