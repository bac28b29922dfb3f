"""Data sets of images held as 8-bit pixels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rightreasons.core.checks import check_flag, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.augmented import Augmented
from rightreasons.datasets.dataset import Card, Dataset, Splits
from rightreasons.datasets.splitting import group_counts, stratified
from rightreasons.errors import InvalidBatchError
from rightreasons.types import Batch

__all__ = [
    "MaskedPixels",
    "PixelMemory",
    "PixelPart",
    "masked_pixel_splits",
    "pixel_places",
    "pixel_splits",
]


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


@dataclass(frozen=True)
class PixelPart:
    """The training or the test images, as published; they may be decoded when asked for.

    Args:
        y: Labels ``(N,)``.
        images: From positions ``(n,)`` to 8-bit pixels ``(n, C, H, W)``.
    """

    y: NDArray[np.int64]
    images: Callable[[NDArray[np.int64]], NDArray[np.uint8]]


def pixel_places(
    y: Tensor, *, name: str, seed: int, validation: int, subset: int | None
) -> tuple[Tensor, Tensor]:
    """Which of the published training images validate, and which train.

    Args:
        y: Their labels ``(N,)``.
        name: Of the data set: the draw depends on it and the seed.
        seed: From 0.
        validation: How many to hold out, stratified by class; 0 for none.
        subset: How many of the others to train on, stratified by class; a smaller subset is part
            of a larger one. None for all.
    """
    check_integer("validation", validation, low=0, high=len(y) - 1)
    used = len(y) - validation
    if subset is not None:
        used = check_integer("subset", subset, high=used)
    stream = random_stream(seed, name, "split")
    val, train, _ = stratified(y, sizes=[validation, used], stream=stream)
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
        read: Gives the training and the test part; called once the settings are checked.
        card: What they are.
        seed: Of the validation split, the subset, and the flips and crops.
        subset: See `pixel_places`.
        validation: See `pixel_places`.
        flip: Mirror training images at random, see `Augmented`.
        crop: Move training images by up to so many pixels at random, see `Augmented`.
    """
    check_integer("validation", validation, low=0)
    if subset is not None:
        check_integer("subset", subset)
    augment = check_flag("flip", flip) | bool(check_integer("crop", crop, low=0))
    check_integer("seed", seed, low=0)
    train, test = read()
    val_places, train_places = pixel_places(
        torch.from_numpy(train.y), name=card.name, seed=seed, validation=validation, subset=subset
    )
    splits = Splits(
        train=_part(train, train_places, card),
        val=_part(train, val_places, card) if validation else None,
        test=_part(test, torch.arange(len(test.y)), card),
    )
    if augment:
        return replace(splits, train=Augmented(splits.train, flip=flip, crop=crop, seed=seed))
    return splits


def _part(part: PixelPart, places: Tensor, card: Card) -> PixelMemory:
    pixels = torch.from_numpy(part.images(places.numpy()))
    return PixelMemory(pixels, torch.from_numpy(part.y)[places], card)


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
