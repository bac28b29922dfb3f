"""Images with masks held in memory in 8 bits, as they were published."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import torch
from torch import Tensor

from rightreasons.datasets.dataset import Card, Dataset, Splits
from rightreasons.datasets.splitting import group_counts
from rightreasons.errors import InvalidBatchError
from rightreasons.types import Batch

__all__ = ["MaskedPixels", "masked_pixel_splits"]


class MaskedPixels(Dataset):
    """Images, a mask for each and groups; scaled to [0, 1] when a batch asks for them.

    Takes a quarter of the memory of `InMemory`. All samples are annotated.

    Args:
        pixels: ``(N, C, H, W)``, 8-bit.
        mask: ``(N, 1, H, W)`` booleans, True where the model must not look.
        y: Labels ``(N,)``.
        group: Group numbers ``(N,)``.
        card: What they are.

    Example:
        >>> pixels, mask = torch.full((2, 3, 4, 4), 51).byte(), torch.ones(2, 1, 4, 4).bool()
        >>> y = torch.tensor([0, 1])
        >>> data = MaskedPixels(pixels, mask, y, y, Card())
        >>> data.card.shape, data.take(torch.tensor([1])).mask.mean()
        ((3, 4, 4), tensor(1.))
    """

    def __init__(self, pixels: Tensor, mask: Tensor, y: Tensor, group: Tensor, card: Card) -> None:
        size = len(pixels)
        fits = mask.shape == (size, 1, *pixels.shape[2:]) and y.shape == group.shape == (size,)
        if not size or not fits or pixels.dtype != torch.uint8 or mask.dtype != torch.bool:
            raise InvalidBatchError(
                f"Expected at least one image of 8 bits (N, C, H, W), a boolean mask (N, 1, H, W), "
                f"a label and a group for each, but got {pixels.dtype} {tuple(pixels.shape)}, "
                f"{mask.dtype} {tuple(mask.shape)}, {tuple(y.shape)} and {tuple(group.shape)}."
            )
        self.pixels, self.mask = pixels, mask
        self.y, self.group = y.long(), group.long()
        self.card = replace(card, shape=tuple(pixels.shape[1:]))

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, rows: Tensor) -> Batch:
        """See `Dataset.take`."""
        return Batch.trusted(
            x=self.pixels[rows].float().div_(255),
            y=self.y[rows],
            mask=self.mask[rows].float(),
            annotated=torch.ones(len(rows), dtype=torch.bool),
            group=self.group[rows],
            index=rows,
        )

    @property
    def labels(self) -> Tensor:
        """See `Dataset.labels`."""
        return self.y

    @property
    def groups(self) -> Tensor | None:
        """See `Dataset.groups`."""
        return self.group

    @property
    def has_masks(self) -> bool:
        """See `Dataset.has_masks`."""
        return True

    def digest(self) -> str:
        """See `Dataset.digest`."""
        sha = hashlib.sha256(f"masked pixels {tuple(self.pixels.shape)}".encode())
        for part in (self.pixels, self.mask, self.y, self.group):
            sha.update(part.contiguous().numpy().data)
        return sha.hexdigest()


def masked_pixel_splits(
    parts: dict[str, tuple[Tensor, Tensor, Tensor, Tensor]], card: Card
) -> Splits:
    """Hold parts in memory under one card, with the training groups counted.

    Args:
        parts: Pixels, masks, labels and groups for ``"train"``, ``"test"`` and perhaps ``"val"``.
        card: What they are.
    """
    counts = group_counts(parts["train"][3], len(card.groups))
    card = replace(card, train_group_counts=counts)
    held = {name: MaskedPixels(*part, card) for name, part in parts.items()}
    return Splits(train=held["train"], val=held.get("val"), test=held["test"])
