"""Annotated images flipped, moved, turned and pasted into each other, with their masks."""

from __future__ import annotations

import math

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

__all__ = ["Pasted", "Turned", "augmented", "checked_degrees", "turned"]


def checked_degrees(degrees: object) -> float:
    """Give an angle back if it is a number from 0 to 180."""
    is_number = isinstance(degrees, int | float) and not isinstance(degrees, bool)
    if not is_number or not 0 <= degrees <= 180:  # type: ignore[operator]
        raise InvalidSettingError(
            f"Expected `degrees` to be a number from 0 to 180, but got {degrees!r}."
        )
    return float(degrees)  # type: ignore[arg-type]


def turned(image: Tensor, degrees: Tensor, *, mode: str = "bilinear") -> Tensor:
    """Turn images about their centres, counter-clockwise; edges are repeated outwards.

    Args:
        image: ``(N, C, H, W)``.
        degrees: ``(N,)``.
        mode: How pixels are read off: ``"bilinear"`` or ``"nearest"``.

    Example:
        >>> image = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> turned(image, torch.tensor([90.0]), mode="nearest")
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
    places = functional.affine_grid(
        torch.stack(rows, dim=1), list(image.shape), align_corners=False
    )
    return functional.grid_sample(
        image, places, mode=mode, padding_mode="border", align_corners=False
    )


class Turned(TransformedDataset):
    """Images that training sees turned by up to some degrees, anew in every epoch.

    As `Augmented`: itself it is the data unchanged, and what training sees depends on the seed,
    the epoch and the place of the sample alone.

    Args:
        base: Images ``(C, H, W)``.
        degrees: The most they are turned, either way; from 0 to 180.
        seed: From 0.
        epoch: None for the data unchanged.
    """

    def __init__(
        self, base: Dataset, *, degrees: float, seed: int = 0, epoch: int | None = None
    ) -> None:
        super().__init__(base)
        self.degrees = checked_degrees(degrees)
        self.seed = seed
        self.epoch = epoch
        if epoch is not None:
            drawn = random_stream(seed, "turned", epoch).uniform(-degrees, degrees, len(base))
            self._degrees = torch.from_numpy(drawn).float()

    @override
    def at_epoch(self, epoch: int) -> Dataset:
        inner = self.base.at_epoch(epoch)
        return Turned(inner, degrees=self.degrees, seed=self.seed, epoch=epoch)

    def digest(self) -> str:
        """That of the data unchanged: how training sees them is a setting."""
        return self.base.digest()

    @override
    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        if self.epoch is None:
            return batch
        degrees, mask = self._degrees[indices], batch.mask
        if mask is not None:
            full = mask.expand(-1, -1, *batch.x.shape[2:])
            mask = turned(full, degrees, mode="nearest")
        return batch.with_(x=turned(batch.x, degrees), mask=mask)


class Pasted(TransformedDataset):
    """Images into which training sees what is marked in others pasted, anew in every epoch.

    A fraction of the images gets the masked pixels of another image, and its mask too. So the
    annotator sees masked objects on other backgrounds. As for `Turned`, only `at_epoch` changes
    the data.

    Args:
        base: Images ``(C, H, W)`` with masks.
        share: Fraction of images that get pasted pixels, from 0 to below 1.
        seed: From 0.
        epoch: None for the data unchanged.
    """

    def __init__(
        self, base: Dataset, *, share: float, seed: int = 0, epoch: int | None = None
    ) -> None:
        super().__init__(base)
        self.share = check_fraction("share", share, below_one=True)
        self.seed = seed
        self.epoch = epoch
        if epoch is not None:
            stream = random_stream(seed, "pasted", epoch)
            self._donors = torch.from_numpy(stream.integers(len(base), size=len(base)))
            self._gets = torch.from_numpy(stream.random(len(base))) < share

    @override
    def at_epoch(self, epoch: int) -> Dataset:
        inner = self.base.at_epoch(epoch)
        return Pasted(inner, share=self.share, seed=self.seed, epoch=epoch)

    def digest(self) -> str:
        """That of the data unchanged: how training sees them is a setting."""
        return self.base.digest()

    @override
    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        if self.epoch is None:
            return batch
        other = self.base.take(self._donors[indices])
        if batch.mask is None or other.mask is None:
            return batch
        gets = self._gets[indices].reshape(-1, 1, 1, 1)
        new = (other.mask * gets).expand(-1, -1, *batch.x.shape[2:])
        pasted = torch.lerp(batch.x, other.x, new)
        return batch.with_(x=pasted, mask=torch.maximum(batch.mask, new))


def augmented(
    data: Dataset,
    *,
    flip: bool = False,
    shift: int = 0,
    degrees: float = 0.0,
    paste: float = 0.0,
    seed: int = 0,
) -> Dataset:
    """The data as training sees them: flipped, moved, turned, pasted; where asked for."""
    changed = Augmented(data, flip=flip, crop=shift, seed=seed) if flip or shift else data
    changed = Turned(changed, degrees=degrees, seed=seed) if degrees else changed
    return Pasted(changed, share=paste, seed=seed) if paste else changed
