"""Images held in memory as they were published, in 8 bits."""

import hashlib

from torch import Tensor

from rightreasons.datasets.dataset import Card, Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.types import Batch

__all__ = ["PixelMemory"]


class PixelMemory(Dataset):
    """Images without masks and groups, scaled to [0, 1] when a batch asks for them.

    Takes a quarter of the memory of `InMemory`.

    Args:
        pixels: ``(N, C, H, W)``, 8-bit.
        y: Labels ``(N,)``.
        card: What they are.

    Example:
        >>> import torch
        >>> pixels = torch.full((2, 3, 4, 4), 51, dtype=torch.uint8)
        >>> data = PixelMemory(pixels, torch.tensor([0, 1]), Card(shape=(3, 4, 4)))
        >>> data.card.shape, data.take(torch.tensor([1])).x.mean()
        ((3, 4, 4), tensor(0.2000))
    """

    def __init__(self, pixels: Tensor, y: Tensor, card: Card) -> None:
        if not len(pixels) or pixels.shape[1:] != card.shape or y.shape != (len(pixels),):
            raise InvalidBatchError(
                f"Expected at least one image of shape {card.shape} and a label for each, but got "
                f"pixels {tuple(pixels.shape)} and labels {tuple(y.shape)}."
            )
        self.pixels = pixels
        self.y = y.long()
        self.card = card

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, rows: Tensor) -> Batch:
        """See `Dataset.take`."""
        return Batch.trusted(x=self.pixels[rows].float().div_(255), y=self.y[rows], index=rows)

    @property
    def labels(self) -> Tensor:
        """See `Dataset.labels`."""
        return self.y

    @property
    def groups(self) -> Tensor | None:
        """None: there are none."""
        return None

    @property
    def has_masks(self) -> bool:
        """False: there are none."""
        return False

    def digest(self) -> str:
        """See `Dataset.digest`."""
        sha = hashlib.sha256(f"pixels {tuple(self.pixels.shape)}".encode())
        sha.update(self.pixels.contiguous().numpy().data)
        sha.update(self.y.numpy().data)
        return sha.hexdigest()
