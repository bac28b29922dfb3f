"""Data sets made from another one: other masks, fewer samples, covered images."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.checks import check_choice
from rightreasons.datasets.augmented import Augmented
from rightreasons.datasets.dataset import (
    Dataset,
    Files,
    InMemory,
    TransformedDataset,
    group_counts,
)
from rightreasons.errors import InvalidBatchError
from rightreasons.types import Batch

__all__ = [
    "FILLS",
    "Change",
    "ChangedMasks",
    "Fill",
    "MaskBits",
    "MaskedInput",
    "RowMasks",
    "Selected",
    "change_masks",
    "cover",
    "keep_masks",
    "masked_input",
    "pack_masks",
    "select",
]

Change = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Function from masks, ``annotated`` and sample indices to new masks and ``annotated``."""

Fill = Literal["zero", "mean", "blur"]
FILLS: tuple[Fill, ...] = ("zero", "mean", "blur")
CHUNK = 4096
LEVELS = 255  # grey levels of a soft mask
BLUR_SHARE = 4


class ChangedMasks(TransformedDataset):
    """Data whose masks are changed when a batch is taken; images may stay on disk.

    Args:
        base: Data with masks.
        change: Function that changes masks. Its result for a sample must not depend on the other
            samples of the batch.
        key: Name of the change, for the digest.
    """

    def __init__(self, base: Dataset, change: Change, *, key: str) -> None:
        super().__init__(base)
        self.change = change
        self.key = key

    @override
    def at_epoch(self, epoch: int) -> Dataset:
        return ChangedMasks(self.base.at_epoch(epoch), self.change, key=self.key)

    @override
    def digest(self) -> str:
        return hashlib.sha256(f"{self.base.digest()} {self.key}".encode()).hexdigest()

    @override
    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        if batch.mask is None or batch.annotated is None:
            return batch
        mask, annotated = self.change(batch.mask, batch.annotated, indices)
        return batch.with_(mask=mask, annotated=annotated)


def change_masks(data: Dataset, change: Change, *, key: str) -> Dataset:
    """Change the masks: at once for data in memory, else when a batch is taken."""
    if not isinstance(data, InMemory) or data.batch.mask is None or data.batch.annotated is None:
        return ChangedMasks(data, change, key=key)
    changed = [
        change(data.batch.mask[indices], data.batch.annotated[indices], indices)
        for indices in torch.split(torch.arange(len(data)), CHUNK)
    ]
    masks, annotated = zip(*changed, strict=True)
    return InMemory(
        data.batch.replace(mask=torch.cat(masks), annotated=torch.cat(annotated)),
        data.card,
        files=data.files,
        vocabulary=data.vocabulary,
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
    """Some samples of a data set, numbered again from 0; images may stay on disk.

    Args:
        base: The data to select from.
        places: ``(N,)`` indices in ``base``.
    """

    def __init__(self, base: Dataset, places: Tensor) -> None:
        self.base = base
        self.places = places
        self.vocabulary = base.vocabulary
        counts = group_counts(self.groups, len(base.card.groups))
        self.card = replace(base.card, train_group_counts=counts)

    def __len__(self) -> int:
        return len(self.places)

    @override
    def take(self, rows: Tensor) -> Batch:
        return self.base.take(self.places[rows]).with_(index=rows)

    @override
    def at_epoch(self, epoch: int) -> Dataset:
        return Selected(self.base.at_epoch(epoch), self.places)

    @override
    def batches(self, rows: Iterable[Tensor]) -> Iterator[Batch]:
        listed = list(rows)
        in_base = [self.places[indices] for indices in listed]
        for batch, indices in zip(self.base.batches(in_base), listed, strict=True):
            yield batch.with_(index=indices)

    @property
    @override
    def labels(self) -> Tensor:
        return self.base.labels[self.places]

    @property
    @override
    def groups(self) -> Tensor | None:
        groups = self.base.groups
        return None if groups is None else groups[self.places]

    @property
    @override
    def lengths(self) -> Tensor | None:
        lengths = self.base.lengths
        return None if lengths is None else lengths[self.places]

    @property
    @override
    def has_masks(self) -> bool:
        return self.base.has_masks

    @override
    def digest(self) -> str:
        sha = hashlib.sha256(self.base.digest().encode())
        sha.update(self.places.numpy().tobytes())
        return sha.hexdigest()


def select(data: Dataset, indices: Tensor) -> Dataset:
    """Select samples: copied for data in memory, else taken when a batch is taken."""
    selection = Selected(data, indices)
    if not isinstance(data, InMemory):
        return selection
    files = data.files and Files(
        data.files.root, tuple(data.files.names[index] for index in indices.tolist())
    )
    return InMemory(data.batch[indices], selection.card, files=files, vocabulary=data.vocabulary)


class RowMasks(TransformedDataset):
    """Texts or rows of a table with the masks given here, in place of their own.

    The card says which columns are masked in every row, and which words are masked.

    Args:
        base: Texts ``(T,)`` or rows ``(D,)``.
        mask: A mask for each sample, ``(N, T)`` or ``(N, D)`` bytes.
        annotated: ``(N,)`` booleans: which samples have a mask.
        substitutes: Token ids that may stand in for masked ones; empty keeps those of the data.
    """

    def __init__(
        self,
        base: Dataset,
        mask: NDArray[np.uint8],
        annotated: Tensor,
        *,
        substitutes: tuple[int, ...] = (),
    ) -> None:
        super().__init__(base)
        self.rows, self.annotated, self.substitutes = mask, annotated, substitutes
        everywhere = torch.from_numpy(mask > 0).all(dim=0)
        columns = tuple(
            replace(one, masked=bool(everywhere[one.features].all())) for one in base.card.columns
        )
        text = base.card.text
        if text is not None and substitutes:
            text = replace(text, substitutes=substitutes)
        self.card = replace(base.card, columns=columns, text=text)

    @property
    @override
    def has_masks(self) -> bool:
        return True

    @override
    def at_epoch(self, epoch: int) -> Dataset:
        return RowMasks(
            self.base.at_epoch(epoch), self.rows, self.annotated, substitutes=self.substitutes
        )

    def joined(self, others: Sequence[RowMasks]) -> RowMasks:
        """The largest of several masks of the same samples; none is without a mask."""
        every = [self, *others]
        return RowMasks(
            self.base,
            np.maximum.reduce([one.rows for one in every]),
            torch.ones_like(self.annotated),
            substitutes=tuple(sorted({token for one in every for token in one.substitutes})),
        )

    @override
    def digest(self) -> str:
        sha = hashlib.sha256(f"{self.base.digest()} row masks".encode())
        sha.update(self.rows.tobytes())
        sha.update(self.annotated.numpy().tobytes())
        return sha.hexdigest()

    @override
    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        mask = torch.from_numpy(self.rows[indices.numpy()][:, : batch.x.shape[1]])
        soft = (mask.float() / LEVELS).to(batch.x.device)
        return batch.with_(mask=soft, annotated=self.annotated[indices])


class MaskBits:
    """One mask for each image, one bit per pixel; soft masks take a byte per pixel.

    Args:
        rows: ``(N, B)`` bytes, as `pack_masks` gives them; in memory or mapped from a file.
        size: Height and width.
        soft: Whether to keep values between 0 and 1, in steps of 1/255.

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

    def at(self, indices: Tensor) -> Tensor:
        """Unpack the masks of some images, ``(n, 1, H, W)`` in [0, 1]."""
        rows = np.ascontiguousarray(self.rows[indices.cpu().numpy()])
        if self.soft:
            values = torch.from_numpy(rows).float() / LEVELS
        else:
            num_pixels = self.size[0] * self.size[1]
            values = torch.from_numpy(np.unpackbits(rows, axis=1, count=num_pixels)).float()
        return values.reshape(-1, 1, *self.size)


def pack_masks(mask: Tensor, *, soft: bool = False) -> NDArray[np.uint8]:
    """Pack masks ``(n, 1, H, W)`` in [0, 1] into bytes; a bit is 1 where the mask is not 0."""
    flat = mask.detach().cpu().flatten(1)
    if soft:
        return (flat * LEVELS).round().to(torch.uint8).numpy()
    return np.packbits((flat != 0).numpy(), axis=1)


class MaskedInput(TransformedDataset):
    """Images that are covered when a batch is taken; masks and labels stay.

    Args:
        base: Images ``(C, H, W)``; they may stay on disk.
        bits: A mask for each image: what to cover.
        fill: The values to cover with, as in `cover`.
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

    @override
    def at_epoch(self, epoch: int) -> Dataset:
        return MaskedInput(self.base.at_epoch(epoch), self.bits, fill=self.fill)

    @override
    def digest(self) -> str:
        sha = hashlib.sha256(f"{self.base.digest()} {self.fill}".encode())
        sha.update(np.ascontiguousarray(self.bits.rows).data)
        return sha.hexdigest()

    @override
    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        mask = self.bits.at(indices).to(batch.x)
        return batch.with_(x=cover(batch.x, mask, self.fill))


def masked_input(data: Dataset, bits: MaskBits, *, fill: Fill = "zero") -> Dataset:
    """Cover images where a mask is 1; augmented images are covered before augmentation.

    Args:
        data: Images ``(C, H, W)``; they may stay on disk.
        bits: A mask for each image: what to cover.
        fill: The values to cover with: ``"zero"``, ``"mean"`` or ``"blur"``.
    """
    if isinstance(data, Augmented):
        return data.rebase(MaskedInput(data.base, bits, fill=fill))
    return MaskedInput(data, bits, fill=fill)


def cover(x: Tensor, mask: Tensor, fill: Fill = "zero") -> Tensor:
    """Replace pixels where the mask is 1, and blend where it is between 0 and 1.

    Args:
        x: Images ``(N, C, H, W)``.
        mask: ``(N, 1, H, W)`` in [0, 1].
        fill: ``"zero"``; ``"mean"``: the mean of each channel of the image; ``"blur"``: the image
            averaged over squares with a quarter of its side.

    Example:
        >>> x = torch.tensor([[[[2.0, 4.0]]]])
        >>> cover(x, torch.tensor([[[[1.0, 0.0]]]]), "mean")
        tensor([[[[3., 4.]]]])
    """
    if fill == "zero":
        return torch.where(mask == 0, x, x * (1 - mask))
    if fill == "mean":
        filling = x.mean(dim=(2, 3), keepdim=True).expand_as(x)
    else:
        side = max(min(x.shape[2:]) // BLUR_SHARE, 1) | 1  # odd, so that the square has a centre
        filling = functional.avg_pool2d(
            x, side, stride=1, padding=side // 2, count_include_pad=False
        )
    return torch.where(mask == 0, x, torch.lerp(x, filling, mask))
