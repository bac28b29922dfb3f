"""Digits with a block above or below them that says nothing."""

import hashlib
from typing import final

import torch
from torch import Tensor

from rightreasons.datasets.altered import Altered
from rightreasons.datasets.dataset import Card, Dataset
from rightreasons.datasets.random_stream import random_stream
from rightreasons.types import Batch

__all__ = ["NullBlock", "null_pattern"]

MARGIN = 4  # MNIST's digits have as much
LINE = 2


def null_pattern(size: int) -> Tensor:
    """A crossed box, white on black, ``(1, size, size)``.

    Its lines are two pixels wide and it leaves a margin of four, as MNIST's digits do.

    Example:
        >>> for row in null_pattern(20)[0, 4:11, 4:16].int():
        ...     print("".join(".#"[value] for value in row))
        ############
        ############
        ####....####
        #####..#####
        ##.######.##
        ##..####..##
        ##..####..##
    """
    places = torch.arange(size)
    rows, columns = torch.meshgrid(places, places, indexing="ij")
    first, last = MARGIN, size - 1 - MARGIN
    inside = (rows >= first) & (rows <= last) & (columns >= first) & (columns <= last)
    to_edge = torch.stack([rows - first, last - rows, columns - first, last - columns]).amin(dim=0)
    diagonal = torch.minimum((rows - columns).abs(), (rows + columns - size + 1).abs())
    lit = (to_edge < LINE) | (diagonal < LINE)
    return (inside & lit).float()[None]


@final
class NullBlock(Altered):
    """A crossed box above or below each image; the mask is its block, the group the label.

    A data set that redraws is itself the first draw; `at_epoch` gives what training sees. That
    depends on the seed, the epoch and the place of the sample alone.

    Args:
        base: Square images with one channel, ``(1, S, S)``.
        card: What becomes of them; its shape is ``(1, 2 S, S)``.
        seed: Of the places.
        part: Of the data: its places are its own.
        redraws: Whether places are drawn anew in every epoch.
        epoch: None for the data as they are.
    """

    def __init__(
        self,
        base: Dataset,
        card: Card,
        *,
        seed: int,
        part: str,
        redraws: bool = False,
        epoch: int | None = None,
    ) -> None:
        super().__init__(base)
        self.card = card
        self.seed, self.part, self.redraws, self.epoch = seed, part, redraws, epoch
        moment = [] if epoch is None else [epoch]
        stream = random_stream(seed, card.name, part, *moment)
        self._pattern = null_pattern(card.shape[2])
        self._above = torch.from_numpy(stream.integers(2, size=len(base))).bool()

    def at_epoch(self, epoch: int) -> Dataset:
        """See `Dataset.at_epoch`."""
        if not self.redraws:
            return self
        return NullBlock(
            self.base.at_epoch(epoch),
            self.card,
            seed=self.seed,
            part=self.part,
            redraws=True,
            epoch=epoch,
        )

    @property
    def groups(self) -> Tensor:
        """The labels."""
        return self.labels

    @property
    def has_masks(self) -> bool:
        """True: the null blocks."""
        return True

    def digest(self) -> str:
        """See `Dataset.digest`."""
        sha = hashlib.sha256(f"{self.base.digest()} redraws {self.redraws}".encode())
        sha.update(self._pattern.numpy().tobytes())
        sha.update(self._above.numpy().tobytes())
        return sha.hexdigest()

    def altered(self, batch: Batch, places: Tensor) -> Batch:
        """See `Altered.altered`."""
        x = batch.x
        above = self._above[places].to(x.device).reshape(-1, 1, 1, 1)
        blocks = self._pattern.to(x).expand_as(x)
        here = above.to(x).expand_as(x)
        return Batch.trusted(
            x=torch.cat([torch.where(above, blocks, x), torch.where(above, x, blocks)], dim=2),
            y=batch.y,
            mask=torch.cat([here, 1 - here], dim=2),
            annotated=torch.ones_like(batch.y, dtype=torch.bool),
            group=batch.y,
            index=batch.index,
        )
