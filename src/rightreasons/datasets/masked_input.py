"""The same data with a part of each image covered."""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.datasets.altered import Altered
from rightreasons.datasets.augmented import Augmented
from rightreasons.datasets.dataset import Dataset
from rightreasons.datasets.mask_bits import MaskBits
from rightreasons.errors import InvalidBatchError
from rightreasons.setting import checked_choice
from rightreasons.types import Batch

__all__ = ["FILLS", "Fill", "MaskedInput", "covered", "masked_input"]

Fill = Literal["zero", "mean", "blur"]
FILLS: tuple[Fill, ...] = ("zero", "mean", "blur")
BLUR_SHARE = 4


def covered(x: Tensor, mask: Tensor, fill: Fill = "zero") -> Tensor:
    """Put something else where the mask is 1; in part where it is in between.

    Args:
        x: Images ``(N, C, H, W)``.
        mask: ``(N, 1, H, W)`` in [0, 1].
        fill: ``"zero"``; ``"mean"``: the image's own mean, channel by channel; ``"blur"``: the
            image averaged over squares a quarter of its side.

    Example:
        >>> x = torch.tensor([[[[2.0, 4.0]]]])
        >>> covered(x, torch.tensor([[[[1.0, 0.0]]]]), "mean")
        tensor([[[[3., 4.]]]])
    """
    if fill == "zero":
        return torch.where(mask == 0, x, x * (1 - mask))
    if fill == "mean":
        other = x.mean(dim=(2, 3), keepdim=True).expand_as(x)
    else:
        side = max(min(x.shape[2:]) // BLUR_SHARE, 1) | 1
        other = functional.avg_pool2d(x, side, stride=1, padding=side // 2, count_include_pad=False)
    return torch.where(mask == 0, x, torch.lerp(x, other, mask))


class MaskedInput(Altered):
    """Images covered when a batch is taken; their own masks and labels stay.

    Args:
        base: Images ``(C, H, W)``; they may stay on disk.
        bits: A mask for each of them.
        fill: See `covered`.
    """

    def __init__(self, base: Dataset, bits: MaskBits, *, fill: Fill = "zero") -> None:
        super().__init__(base)
        checked_choice("fill", fill, FILLS)
        if len(bits) != len(base) or base.card.shape[1:] != bits.size:
            raise InvalidBatchError(
                f"Expected a mask for each of {len(base)} images of shape {base.card.shape}, but "
                f"got {len(bits)} of {bits.size[0]}x{bits.size[1]} pixels."
            )
        self.bits = bits
        self.fill = fill

    def at_epoch(self, epoch: int) -> Dataset:
        """See `Dataset.at_epoch`."""
        return MaskedInput(self.base.at_epoch(epoch), self.bits, fill=self.fill)

    def digest(self) -> str:
        """See `Dataset.digest`."""
        sha = hashlib.sha256(f"{self.base.digest()} {self.fill}".encode())
        sha.update(np.ascontiguousarray(self.bits.rows).data)
        return sha.hexdigest()

    def altered(self, batch: Batch, places: Tensor) -> Batch:
        """See `Altered.altered`."""
        mask = self.bits.at(places).to(batch.x)
        return Batch.trusted(
            x=covered(batch.x, mask, self.fill),
            y=batch.y,
            mask=batch.mask,
            annotated=batch.annotated,
            group=batch.group,
            index=batch.index,
        )


def masked_input(data: Dataset, bits: MaskBits, *, fill: Fill = "zero") -> Dataset:
    """Cover images; those that training sees flipped and cropped are covered before that."""
    if not isinstance(data, Augmented):
        return MaskedInput(data, bits, fill=fill)
    inner = MaskedInput(data.base, bits, fill=fill)
    return Augmented(inner, flip=data.flip, crop=data.crop, seed=data.seed, epoch=data.epoch)
