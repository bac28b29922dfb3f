"""Images flipped and cropped at random in training, their masks in the same way."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.core.checks import check_flag, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Dataset, TransformedDataset
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

__all__ = ["Augmented", "moved"]


def moved(image: Tensor, *, rows: Tensor, columns: Tensor) -> Tensor:
    """Take the pixels of each image from other rows and columns.

    Args:
        image: ``(N, C, H, W)``.
        rows: ``(N, H)``: which row of the image each row of the result is.
        columns: ``(N, W)``, likewise.

    Example:
        >>> image = torch.tensor([[[[1, 2], [3, 4]]]])
        >>> moved(image, rows=torch.tensor([[1, 0]]), columns=torch.tensor([[0, 0]]))
        tensor([[[[3, 3],
                  [1, 1]]]])
    """
    by_rows = image.gather(2, rows[:, None, :, None].expand(image.shape))
    return by_rows.gather(3, columns[:, None, None, :].expand(image.shape))


class Augmented(TransformedDataset):
    """A data set of images that training sees flipped and cropped, anew in every epoch.

    Itself it is the data unchanged; `at_epoch` gives what training sees. That depends on the
    seed, the epoch and the place of the sample alone: not on the order of the batches, nor on how
    many processes read them.

    Args:
        base: Images ``(C, H, W)``.
        flip: Mirror left and right in half of the cases.
        crop: Crop an image whose edges were repeated this many pixels outwards, at a random
            place, that is: move it by up to so many pixels up or down, left or right.
        seed: From 0.
        epoch: None for the data unchanged.
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

    def at_epoch(self, epoch: int) -> Dataset:
        """See `Dataset.at_epoch`."""
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
        """That of the data unchanged: how training sees them is a setting."""
        return self.base.digest()

    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        """See `TransformedDataset.transform`."""
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
            mask = moved(full, rows=rows, columns=columns)
        return batch.with_(x=moved(batch.x, rows=rows, columns=columns), mask=mask)
