"""Data sets made from another: other images, other masks, fewer samples, covered images."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from rightreasons.core.checks import check_choice
from rightreasons.datasets.augmented import Augmented
from rightreasons.datasets.dataset import Dataset, InMemory, TransformedDataset
from rightreasons.datasets.splitting import group_counts
from rightreasons.errors import InvalidBatchError
from rightreasons.types import Batch

__all__ = [
    "FILLS",
    "Change",
    "ChangedMasks",
    "Fill",
    "MaskBits",
    "MaskedInput",
    "Selected",
    "change_masks",
    "covered",
    "keep_masks",
    "masked_input",
    "pack_masks",
    "selected",
]


Change = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""From masks, ``annotated`` and the places of the samples to other masks and ``annotated``."""

CHUNK = 4096


class ChangedMasks(TransformedDataset):
    """Masks changed when a batch is taken, so that images may stay on disk.

    Args:
        base: Data with masks.
        change: Must not depend on which samples come together.
        key: What the change is, for the digest.
    """

    def __init__(self, base: Dataset, change: Change, *, key: str) -> None:
        super().__init__(base)
        self.change = change
        self.key = key

    def at_epoch(self, epoch: int) -> Dataset:
        """See `Dataset.at_epoch`."""
        return ChangedMasks(self.base.at_epoch(epoch), self.change, key=self.key)

    def digest(self) -> str:
        """See `Dataset.digest`."""
        return hashlib.sha256(f"{self.base.digest()} {self.key}".encode()).hexdigest()

    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        """See `TransformedDataset.transform`."""
        if batch.mask is None or batch.annotated is None:
            return batch
        mask, annotated = self.change(batch.mask, batch.annotated, indices)
        return batch.with_(mask=mask, annotated=annotated)


def change_masks(data: Dataset, change: Change, *, key: str) -> Dataset:
    """Change the masks: at once if the data are in memory, else when batches are taken."""
    if not isinstance(data, InMemory) or data.batch.mask is None or data.batch.annotated is None:
        return ChangedMasks(data, change, key=key)
    changed = [
        change(data.batch.mask[places], data.batch.annotated[places], places)
        for start in range(0, len(data), CHUNK)
        for places in [torch.arange(start, min(start + CHUNK, len(data)))]
    ]
    masks, annotated = zip(*changed, strict=True)
    return InMemory(
        data.batch.replace(mask=torch.cat(masks), annotated=torch.cat(annotated)), data.card
    )


def keep_masks(data: Dataset, indices: Tensor, *, key: str) -> Dataset:
    """Keep the masks at ``indices``; all others become zero and not annotated.

    Args:
        data: Data with masks.
        indices: ``(n,)`` indices of samples.
        key: Name of the choice, for the digest.
    """
    keeps = torch.zeros(len(data), dtype=torch.bool)
    keeps[indices] = True

    def change(mask: Tensor, annotated: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        stays = keeps[rows].to(mask.device)
        return mask * stays.reshape(-1, *[1] * (mask.ndim - 1)), annotated & stays

    return change_masks(data, change, key=key)


class Selected(Dataset):
    """The samples at some places, numbered anew from 0; images may stay on disk.

    Args:
        base: Where they are from.
        places: ``(N,)`` positions in ``base``.
    """

    def __init__(self, base: Dataset, places: Tensor) -> None:
        self.base = base
        self.places = places
        counts = group_counts(self.groups, len(base.card.groups))
        self.card = replace(base.card, train_group_counts=counts)

    def __len__(self) -> int:
        return len(self.places)

    def take(self, rows: Tensor) -> Batch:
        """See `Dataset.take`."""
        return self.base.take(self.places[rows]).with_(index=rows)

    def at_epoch(self, epoch: int) -> Dataset:
        """See `Dataset.at_epoch`."""
        return Selected(self.base.at_epoch(epoch), self.places)

    def batches(self, rows: Iterable[Tensor]) -> Iterator[Batch]:
        """See `Dataset.batches`."""
        positions = list(rows)
        in_base = [self.places[some] for some in positions]
        for batch, some in zip(self.base.batches(in_base), positions, strict=True):
            yield batch.with_(index=some)

    @property
    def labels(self) -> Tensor:
        """See `Dataset.labels`."""
        return self.base.labels[self.places]

    @property
    def groups(self) -> Tensor | None:
        """See `Dataset.groups`."""
        groups = self.base.groups
        return None if groups is None else groups[self.places]

    @property
    def has_masks(self) -> bool:
        """See `Dataset.has_masks`."""
        return self.base.has_masks

    def digest(self) -> str:
        """See `Dataset.digest`."""
        sha = hashlib.sha256(self.base.digest().encode())
        sha.update(self.places.numpy().tobytes())
        return sha.hexdigest()


def selected(data: Dataset, places: Tensor) -> Dataset:
    """The samples at some places: copied if they are in memory, else taken when asked for."""
    some = Selected(data, places)
    if not isinstance(data, InMemory):
        return some
    return InMemory(data.batch[places], some.card)


LEVELS = 255


class MaskBits:
    """One mask an image, kept as bits; soft ones as a byte a pixel, in steps of 1/255.

    Args:
        rows: ``(N, B)`` bytes, as `pack_masks` gives them; in memory or mapped from a file.
        size: Height and width.
        soft: Whether values between 0 and 1 are kept.

    Example:
        >>> mask = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
        >>> bits = MaskBits(pack_masks(mask), size=(2, 2))
        >>> bits.rows.nbytes, bits.at(torch.tensor([0]))[0, 0]
        (1, tensor([[1., 0.],
                [0., 1.]]))
    """

    def __init__(
        self, rows: NDArray[np.uint8], *, size: tuple[int, int], soft: bool = False
    ) -> None:
        num_pixels = size[0] * size[1]
        width = num_pixels if soft else -(-num_pixels // 8)
        if rows.ndim != 2 or rows.shape[1] != width or rows.dtype != np.uint8:
            raise InvalidBatchError(
                f"Expected `rows` of {width} bytes for masks of {size[0]}x{size[1]} pixels, but "
                f"got {rows.dtype} {rows.shape}."
            )
        self.rows = rows
        self.size = size
        self.soft = soft

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, places: Tensor) -> Tensor:
        """The masks of some images, ``(n, 1, H, W)`` in [0, 1]."""
        some = np.ascontiguousarray(self.rows[places.cpu().numpy()])
        if self.soft:
            values = torch.from_numpy(some).float() / LEVELS
        else:
            num_pixels = self.size[0] * self.size[1]
            values = torch.from_numpy(np.unpackbits(some, axis=1, count=num_pixels)).float()
        return values.reshape(-1, 1, *self.size)


def pack_masks(mask: Tensor, *, soft: bool = False) -> NDArray[np.uint8]:
    """The bytes of masks ``(n, 1, H, W)`` in [0, 1]; bits say where they are not 0."""
    flat = mask.detach().cpu().flatten(1)
    if soft:
        return (flat * LEVELS).round().to(torch.uint8).numpy()
    return np.packbits((flat != 0).numpy(), axis=1)


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


class MaskedInput(TransformedDataset):
    """Images covered when a batch is taken; their own masks and labels stay.

    Args:
        base: Images ``(C, H, W)``; they may stay on disk.
        bits: A mask for each of them.
        fill: See `covered`.
    """

    def __init__(self, base: Dataset, bits: MaskBits, *, fill: Fill = "zero") -> None:
        super().__init__(base)
        check_choice("fill", fill, FILLS)
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

    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        """See `TransformedDataset.transform`."""
        mask = self.bits.at(indices).to(batch.x)
        return batch.with_(x=covered(batch.x, mask, self.fill))


def masked_input(data: Dataset, bits: MaskBits, *, fill: Fill = "zero") -> Dataset:
    """Cover images; those that training sees flipped and cropped are covered before that."""
    if isinstance(data, Augmented):
        return data.rebase(MaskedInput(data.base, bits, fill=fill))
    return MaskedInput(data, bits, fill=fill)
