"""Data sets in memory that keep images as 8-bit pixels, a quarter of the size of floats."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rightreasons.core.checks import check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Dataset, Splits, group_counts
from rightreasons.datasets.images.splits import augment_training, check_augmentation
from rightreasons.datasets.splitting import stratified_split
from rightreasons.errors import InvalidBatchError
from rightreasons.types import Batch

__all__ = [
    "MaskedPixels",
    "PixelMemory",
    "PixelPart",
    "masked_pixel_splits",
    "pixel_splits",
    "split_training",
]


class PixelMemory(Dataset):
    """Images without masks, scaled to [0, 1] when a batch is taken.

    Args:
        pixels: ``(N, C, H, W)``, 8-bit.
        y: Labels ``(N,)``.
        card: Description of the data.
        group: Group numbers ``(N,)``; None if there are no groups.

    Example:
        >>> import torch
        >>> pixels = torch.full((2, 3, 4, 4), 51, dtype=torch.uint8)
        >>> data = PixelMemory(pixels, torch.tensor([0, 1]), Card(shape=(3, 4, 4)))
        >>> data.card.shape, data.take(torch.tensor([1])).x.mean()
        ((3, 4, 4), tensor(0.2000))
    """

    def __init__(self, pixels: Tensor, y: Tensor, card: Card, group: Tensor | None = None) -> None:
        if not len(pixels) or pixels.shape[1:] != card.shape or y.shape != (len(pixels),):
            raise InvalidBatchError(
                f"Expected at least one image of shape {card.shape} and a label for each, but got "
                f"pixels {tuple(pixels.shape)} and labels {tuple(y.shape)}."
            )
        self.pixels = pixels
        self.y = y.long()
        self.group = group
        self.card = card

    def __len__(self) -> int:
        return len(self.pixels)

    @override
    def take(self, rows: Tensor) -> Batch:
        return Batch.trusted(
            x=self.pixels[rows].float().div_(255),
            y=self.y[rows],
            group=None if self.group is None else self.group[rows],
            index=rows,
        )

    @property
    @override
    def labels(self) -> Tensor:
        return self.y

    @property
    @override
    def groups(self) -> Tensor | None:
        return self.group

    @property
    @override
    def has_masks(self) -> bool:
        return False

    @override
    def digest(self) -> str:
        sha = hashlib.sha256(f"pixels {tuple(self.pixels.shape)}".encode())
        sha.update(self.pixels.contiguous().numpy().data)
        sha.update(self.y.numpy().data)
        if self.group is not None:
            sha.update(self.group.numpy().data)
        return sha.hexdigest()


class MaskedPixels(Dataset):
    """Images with masks and groups, scaled to [0, 1] when a batch is taken.

    Args:
        pixels: ``(N, C, H, W)``, 8-bit.
        mask: ``(N, 1, H, W)`` booleans, True where the model must not look.
        y: Labels ``(N,)``.
        group: Group numbers ``(N,)``.
        card: Description of the data.
        annotated: ``(N,)`` booleans: whether a sample has a mask; None if all have.

    Example:
        >>> pixels, mask = torch.full((2, 3, 4, 4), 51).byte(), torch.ones(2, 1, 4, 4).bool()
        >>> y = torch.tensor([0, 1])
        >>> data = MaskedPixels(pixels, mask, y, y, Card())
        >>> data.card.shape, data.take(torch.tensor([1])).mask.mean()
        ((3, 4, 4), tensor(1.))
    """

    def __init__(
        self,
        pixels: Tensor,
        mask: Tensor,
        y: Tensor,
        group: Tensor,
        card: Card,
        annotated: Tensor | None = None,
    ) -> None:
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
        self.annotated = annotated
        self.card = replace(card, shape=tuple(pixels.shape[1:]))

    def __len__(self) -> int:
        return len(self.pixels)

    @override
    def take(self, rows: Tensor) -> Batch:
        everyone = torch.ones(len(rows), dtype=torch.bool)
        return Batch.trusted(
            x=self.pixels[rows].float().div_(255),
            y=self.y[rows],
            mask=self.mask[rows].float(),
            annotated=everyone if self.annotated is None else self.annotated[rows],
            group=self.group[rows],
            index=rows,
        )

    @property
    @override
    def labels(self) -> Tensor:
        return self.y

    @property
    @override
    def groups(self) -> Tensor | None:
        return self.group

    @property
    @override
    def has_masks(self) -> bool:
        return True

    @override
    def digest(self) -> str:
        sha = hashlib.sha256(f"masked pixels {tuple(self.pixels.shape)}".encode())
        parts = [self.pixels, self.mask, self.y, self.group]
        for part in parts if self.annotated is None else [*parts, self.annotated]:
            sha.update(part.contiguous().numpy().data)
        return sha.hexdigest()


@dataclass(frozen=True)
class PixelPart:
    """The training or the test images as published; the function may decode them.

    Args:
        y: Labels ``(N,)``.
        images: Function from indices ``(n,)`` to 8-bit pixels ``(n, C, H, W)``.
    """

    y: NDArray[np.int64]
    images: Callable[[NDArray[np.int64]], NDArray[np.uint8]]


def split_training(
    y: Tensor, *, name: str, seed: int, validation: int, subset: int | None
) -> tuple[Tensor, Tensor]:
    """Split the published training images into validation and training images.

    Args:
        y: Labels ``(N,)``.
        name: Name of the data set; the draw depends on it and on the seed.
        seed: Random seed, from 0.
        validation: Number of images to hold out, stratified by class; 0 for none.
        subset: Number of the other images to train on, stratified by class; None for all. A
            smaller subset is part of a larger one.

    Returns:
        The indices of the validation and of the training images.
    """
    check_integer("validation", validation, low=0, high=len(y) - 1)
    used = len(y) - validation
    if subset is not None:
        used = check_integer("subset", subset, high=used)
    stream = random_stream(seed, name, "split")
    val, train, _ = stratified_split(y, sizes=[validation, used], stream=stream)
    return val, train


def pixel_splits(
    read: Callable[[], tuple[PixelPart, PixelPart]],
    card: Card,
    *,
    seed: int,
    subset: int | None,
    validation: int,
    flip: bool,
    crop: int,
) -> Splits:
    """Hold out validation images and keep all parts in memory, without masks and groups.

    Args:
        read: Function that reads the training and the test part, called after the settings are
            checked.
        card: Description of the data.
        seed: Random seed for the validation split, the subset, the flips and the crops.
        subset: Number of training images; None for all that do not validate.
        validation: Number of validation images; 0 for none.
        flip: Whether to mirror training images at random, as in `Augmented`.
        crop: Largest random shift of training images in pixels, as in `Augmented`.
    """
    check_integer("validation", validation, low=0)
    if subset is not None:
        check_integer("subset", subset)
    check_augmentation(flip, crop, seed)
    train, test = read()
    val_indices, train_indices = split_training(
        torch.from_numpy(train.y), name=card.name, seed=seed, validation=validation, subset=subset
    )
    splits = Splits(
        train=_keep_part(train, train_indices, card),
        val=_keep_part(train, val_indices, card) if validation else None,
        test=_keep_part(test, torch.arange(len(test.y)), card),
    )
    return augment_training(splits, flip=flip, crop=crop, seed=seed)


def masked_pixel_splits(
    parts: dict[str, tuple[Tensor, Tensor, Tensor, Tensor]],
    card: Card,
    annotated: Mapping[str, Tensor] | None = None,
) -> Splits:
    """Keep parts in memory with one card, and count the training groups.

    Args:
        parts: Pixels, masks, labels and groups for ``"train"``, ``"test"`` and perhaps ``"val"``.
        card: Description of the data.
        annotated: Whether each sample of a part has a mask; None if all have.
    """
    counts = group_counts(parts["train"][3], len(card.groups))
    card = replace(card, train_group_counts=counts)
    known = annotated or {}
    kept = {name: MaskedPixels(*part, card, known.get(name)) for name, part in parts.items()}
    return Splits(train=kept["train"], val=kept.get("val"), test=kept["test"])


def _keep_part(part: PixelPart, indices: Tensor, card: Card) -> PixelMemory:
    pixels = torch.from_numpy(part.images(indices.numpy()))
    return PixelMemory(pixels, torch.from_numpy(part.y)[indices], card)
