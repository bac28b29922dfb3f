"""Augmentation of annotated images and their masks: flips, shifts, rotations, pasted objects."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import final

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.checks import check_fraction
from rightreasons.core.rng import random_stream
from rightreasons.datasets import Augmented, Dataset
from rightreasons.datasets.dataset import TransformedDataset
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

__all__ = ["Pasted", "RandomChange", "Rotated", "augment", "check_degrees", "rotate_images"]


def check_degrees(degrees: object) -> float:
    """Give an angle back if it is a number from 0 to 180."""
    is_number = isinstance(degrees, int | float) and not isinstance(degrees, bool)
    if not is_number or not 0 <= degrees <= 180:  # type: ignore[operator]
        raise InvalidSettingError(
            f"Expected `degrees` to be a number from 0 to 180, but got {degrees!r}."
        )
    return float(degrees)  # type: ignore[arg-type]


def rotate_images(image: Tensor, degrees: Tensor, *, mode: str = "bilinear") -> Tensor:
    """Rotate images about their centres, counter-clockwise; edges are repeated outwards.

    Args:
        image: Images ``(N, C, H, W)``.
        degrees: Angles ``(N,)``.
        mode: Interpolation: ``"bilinear"`` or ``"nearest"``.

    Example:
        >>> image = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> rotate_images(image, torch.tensor([90.0]), mode="nearest")
        tensor([[[[2., 4.],
                  [1., 3.]]]])
    """
    height, width = image.shape[2:]
    angle = degrees.to(image) * (math.pi / 180)
    cosine, sine, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    rows = [
        torch.stack([cosine, -sine * height / width, zero], dim=1),
        torch.stack([sine * width / height, cosine, zero], dim=1),
    ]
    grid = functional.affine_grid(torch.stack(rows, dim=1), list(image.shape), align_corners=False)
    return functional.grid_sample(
        image, grid, mode=mode, padding_mode="border", align_corners=False
    )


class RandomChange(TransformedDataset, ABC):
    """Images that training sees changed at random, differently in every epoch.

    As for `Augmented`, only `at_epoch` changes the images. What it gives depends on the seed, the
    epoch and the index of a sample alone.

    Args:
        base: Images ``(C, H, W)``.
        seed: Random seed, at least 0.
        epoch: Number of the epoch; None leaves the images unchanged.
    """

    def __init__(self, base: Dataset, *, seed: int, epoch: int | None) -> None:
        super().__init__(base)
        self.seed = seed
        self.epoch = epoch

    @override
    def digest(self) -> str:
        return self.base.digest()  # of the unchanged data: augmentation is a setting of training

    @final
    @override
    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        return batch if self.epoch is None else self.change(batch, indices)

    @abstractmethod
    def change(self, batch: Batch, indices: Tensor) -> Batch:
        """Change the samples at these indices, as training sees them in this epoch."""


@final
class Rotated(RandomChange):
    """Images that training sees rotated by a random angle, see `RandomChange`.

    Args:
        base: Images ``(C, H, W)``.
        degrees: Largest angle in either direction, from 0 to 180.
        seed: Random seed, at least 0.
        epoch: Number of the epoch; None leaves the images unchanged.
    """

    def __init__(
        self, base: Dataset, *, degrees: float, seed: int = 0, epoch: int | None = None
    ) -> None:
        super().__init__(base, seed=seed, epoch=epoch)
        self.degrees = check_degrees(degrees)
        if epoch is not None:
            drawn = random_stream(seed, "turned", epoch).uniform(-degrees, degrees, len(base))
            self._degrees = torch.from_numpy(drawn).float()

    @override
    def at_epoch(self, epoch: int) -> Dataset:
        base = self.base.at_epoch(epoch)
        return Rotated(base, degrees=self.degrees, seed=self.seed, epoch=epoch)

    @override
    def change(self, batch: Batch, indices: Tensor) -> Batch:
        degrees, mask = self._degrees[indices], batch.mask
        if mask is not None:
            full = mask.expand(-1, -1, *batch.x.shape[2:])
            mask = rotate_images(full, degrees, mode="nearest")
        return batch.with_(x=rotate_images(batch.x, degrees), mask=mask)


@final
class Pasted(RandomChange):
    """Images that training sees with masked pixels of other images, see `RandomChange`.

    A fraction of the images gets the masked pixels of another image, and its mask too. So the
    annotator sees masked objects on other backgrounds.

    Args:
        base: Images ``(C, H, W)`` with masks.
        share: Fraction of images that get pasted pixels, from 0 to below 1.
        seed: Random seed, at least 0.
        epoch: Number of the epoch; None leaves the images unchanged.
    """

    def __init__(
        self, base: Dataset, *, share: float, seed: int = 0, epoch: int | None = None
    ) -> None:
        super().__init__(base, seed=seed, epoch=epoch)
        self.share = check_fraction("share", share, below_one=True)
        if epoch is not None:
            stream = random_stream(seed, "pasted", epoch)
            self._donors = torch.from_numpy(stream.integers(len(base), size=len(base)))
            self._gets = torch.from_numpy(stream.random(len(base))) < share

    @override
    def at_epoch(self, epoch: int) -> Dataset:
        base = self.base.at_epoch(epoch)
        return Pasted(base, share=self.share, seed=self.seed, epoch=epoch)

    @override
    def change(self, batch: Batch, indices: Tensor) -> Batch:
        donors = self.base.take(self._donors[indices])
        if batch.mask is None or donors.mask is None:
            return batch
        gets = self._gets[indices].reshape(-1, 1, 1, 1)
        pasted = (donors.mask * gets).expand(-1, -1, *batch.x.shape[2:])
        x = torch.lerp(batch.x, donors.x, pasted)
        return batch.with_(x=x, mask=torch.maximum(batch.mask, pasted))


def augment(
    data: Dataset,
    *,
    flip: bool = False,
    shift: int = 0,
    degrees: float = 0.0,
    paste: float = 0.0,
    seed: int = 0,
) -> Dataset:
    """Augment the data in training: flips, shifts, rotations, pasted objects; none by default."""
    changed = Augmented(data, flip=flip, crop=shift, seed=seed) if flip or shift else data
    changed = Rotated(changed, degrees=degrees, seed=seed) if degrees else changed
    return Pasted(changed, share=paste, seed=seed) if paste else changed
