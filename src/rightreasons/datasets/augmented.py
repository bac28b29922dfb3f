"""Random flips and crops of training images and their masks."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.checks import check_flag, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Dataset, TransformedDataset
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

__all__ = ["Augmented", "gather_pixels"]


class Augmented(TransformedDataset):
    """Images with random flips and crops in training, drawn again for every epoch.

    Without an epoch the images are unchanged; `at_epoch` gives the augmented images. They depend
    on the seed, the epoch and the index of the sample alone. The order of the batches and the
    number of worker processes do not matter.

    Args:
        base: Images ``(C, H, W)``.
        flip: Mirror each image left to right with probability 1/2.
        crop: Largest shift in pixels, up or down and left or right. The pixels at the edge are
            repeated.
        seed: Random seed for flips and shifts, from 0.
        epoch: The epoch; None for unchanged images.
    """

    def __init__(
        self,
        base: Dataset,
        *,
        flip: bool = False,
        crop: int = 0,
        seed: int = 0,
        epoch: int | None = None,
    ) -> None:
        if len(base.card.shape) != 3:
            raise InvalidSettingError(
                f"Expected images of shape (C, H, W) to flip or crop, but {base.card.name!r} has "
                f"samples of shape {base.card.shape}."
            )
        super().__init__(base)
        self.flip = check_flag("flip", flip)
        self.crop = check_integer("crop", crop, low=0)
        self.seed = check_integer("seed", seed, low=0)
        self.epoch = epoch
        if epoch is not None:
            stream = random_stream(seed, "augmented", epoch)
            flipped = stream.random(len(base)) < 0.5
            self._flipped = torch.from_numpy(flipped & flip)
            self._shifts = torch.from_numpy(stream.integers(-crop, crop + 1, size=(len(base), 2)))

    @override
    def at_epoch(self, epoch: int) -> Dataset:
        return Augmented(
            self.base.at_epoch(epoch),
            flip=self.flip,
            crop=self.crop,
            seed=self.seed,
            epoch=epoch,
        )

    def rebase(self, base: Dataset) -> Augmented:
        """Augment other data in the same way, in the same epoch.

        Args:
            base: As many images as before, for example with other masks.
        """
        return Augmented(base, flip=self.flip, crop=self.crop, seed=self.seed, epoch=self.epoch)

    def digest(self) -> str:
        """The digest of the unchanged data: augmentation is a setting."""
        return self.base.digest()

    @override
    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        if self.epoch is None:
            return batch
        height, width = batch.x.shape[2:]
        shifts = self._shifts[indices]
        rows = (torch.arange(height) + shifts[:, :1]).clamp(0, height - 1)
        columns = (torch.arange(width) + shifts[:, 1:]).clamp(0, width - 1)
        columns = torch.where(self._flipped[indices, None], width - 1 - columns, columns)
        rows, columns = rows.to(batch.x.device), columns.to(batch.x.device)
        mask = batch.mask
        if mask is not None:
            full = mask.expand(-1, -1, height, width)
            mask = gather_pixels(full, rows=rows, columns=columns)
        return batch.with_(x=gather_pixels(batch.x, rows=rows, columns=columns), mask=mask)


def gather_pixels(image: Tensor, *, rows: Tensor, columns: Tensor) -> Tensor:
    """Take the pixels of each image from other rows and columns.

    Args:
        image: ``(N, C, H, W)``.
        rows: ``(N, H)``: the source row of each row of the result.
        columns: ``(N, W)``: the source column of each column of the result.

    Example:
        >>> image = torch.tensor([[[[1, 2], [3, 4]]]])
        >>> gather_pixels(image, rows=torch.tensor([[1, 0]]), columns=torch.tensor([[0, 0]]))
        tensor([[[[3, 3],
                  [1, 1]]]])
    """
    by_rows = image.gather(2, rows[:, None, :, None].expand(image.shape))
    return by_rows.gather(3, columns[:, None, None, :].expand(image.shape))
