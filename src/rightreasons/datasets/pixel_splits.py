"""From the published arrays of small images to `Splits`, kept in memory in 8 bits."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rightreasons.datasets.augmented import Augmented
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.pixel_memory import PixelMemory
from rightreasons.datasets.random_stream import random_stream
from rightreasons.datasets.splitting import stratified
from rightreasons.setting import checked_flag, checked_number

__all__ = ["PixelPart", "pixel_places", "pixel_splits"]


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
    checked_number("validation", validation, low=0, high=len(y) - 1)
    used = len(y) - validation
    if subset is not None:
        used = checked_number("subset", subset, high=used)
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
    checked_number("validation", validation, low=0)
    if subset is not None:
        checked_number("subset", subset)
    augment = checked_flag("flip", flip) | bool(checked_number("crop", crop, low=0))
    checked_number("seed", seed, low=0)
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
