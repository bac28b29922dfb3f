"""BlockMNIST: a digit above or below a block that tells nothing (Shah et al. 2021)."""

import hashlib
from dataclasses import replace
from os import PathLike
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Dataset, Splits, TransformedDataset, group_counts
from rightreasons.datasets.images.pixels import PixelMemory
from rightreasons.datasets.sets.mnist import DIGITS_CARD, split_mnist
from rightreasons.types import Batch

__all__ = ["NullBlock", "block_mnist", "null_pattern"]

SIZE = 28
CARD = replace(
    DIGITS_CARD,
    name="block_mnist",
    description="MNIST digits with a crossed box above or below them.",
    source=f"{DIGITS_CARD.source}; null blocks after Shah et al. 2021",
    shortcut=(
        "None: a crossed box above or below the digit tells nothing, in training or at test. What "
        "a model makes of it is leakage."
    ),
    shape=(1, 2 * SIZE, SIZE),
)
MARGIN = 4  # as around MNIST's digits
LINE = 2


def block_mnist(
    data_dir: str | PathLike[str],
    *,
    seed: int = 0,
    subset: int | None = None,
    validation: int = 5000,
    download: bool = False,
) -> Splits:
    """MNIST digits with a null block, a box that tells nothing, above or below.

    Images are 56×28 in [0, 1]: the digit in one half, the same crossed box in the other, at
    random. In training the halves are drawn again for every epoch. Those of validation and test
    images are drawn once, by the seed. The mask is the half with the box, ``(N, 1, 56, 28)``; the
    group is the digit. The digits are kept in memory in 8 bits.

    Differs from the paper: some of the 60,000 training images validate, unless ``validation=0``.
    The paper has one test set; here each seed draws the boxes of the same test digits. The paper
    shows the box but not the width of its lines; `null_pattern` chooses one.

    Args:
        data_dir: Folder with MNIST, as in `read_mnist`.
        seed: Random seed for the validation split, the subset and the halves of all images.
        subset: Number of the other images to train on, stratified by digit; None for all. A
            smaller subset is part of a larger one.
        validation: Number of training images to hold out, stratified by digit; 0 for none.
        download: Whether to download MNIST into ``data_dir`` if it is not there.

    Raises:
        DatasetNotFoundError: MNIST is not in ``data_dir``.
        DatasetCorruptError: A file of MNIST cannot be read.

    References:
        yang2024regulating, shah2021input
    """
    parts = split_mnist(
        data_dir, CARD.name, seed=seed, validation=validation, subset=subset, download=download
    )
    counts = group_counts(parts["train"][1], len(CARD.groups))
    card = replace(CARD, train_group_counts=counts)

    def add_blocks(part: str) -> NullBlock:
        pixels, y = parts[part]
        digits = Card(shape=(1, SIZE, SIZE), classes=card.classes)
        base = PixelMemory(torch.from_numpy(pixels[:, None].copy()), y, digits)
        return NullBlock(base, card, seed=seed, part=part, redraws=part == "train")

    return Splits(
        train=add_blocks("train"),
        val=add_blocks("val") if "val" in parts else None,
        test=add_blocks("test"),
    )


@final
class NullBlock(TransformedDataset):
    """Images with a crossed box above or below; the mask is the box, the group the label.

    The positions of the boxes depend on the seed, the part, the epoch and the index of the sample
    alone.

    Args:
        base: Square images with one channel, ``(1, S, S)``.
        card: Description of the result, of shape ``(1, 2 S, S)``.
        seed: Random seed for the positions.
        part: Name of the part; each part has its own positions.
        redraws: Whether `at_epoch` draws new positions.
        epoch: The epoch of the positions; None for the first draw.
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
        epochs = [] if epoch is None else [epoch]
        stream = random_stream(seed, card.name, part, *epochs)
        self._pattern = null_pattern(card.shape[2])
        self._above = torch.from_numpy(stream.integers(2, size=len(base))).bool()

    @override
    def at_epoch(self, epoch: int) -> Dataset:
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
    @override
    def groups(self) -> Tensor:
        return self.labels

    @property
    @override
    def has_masks(self) -> bool:
        return True

    @override
    def digest(self) -> str:
        sha = hashlib.sha256(f"{self.base.digest()} redraws {self.redraws}".encode())
        sha.update(self._pattern.numpy().tobytes())
        sha.update(self._above.numpy().tobytes())
        return sha.hexdigest()

    @override
    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        x = batch.x
        above = self._above[indices].to(x.device).reshape(-1, 1, 1, 1)
        blocks = self._pattern.to(x).expand_as(x)
        upper = above.to(x).expand_as(x)
        return batch.with_(
            x=torch.cat([torch.where(above, blocks, x), torch.where(above, x, blocks)], dim=2),
            mask=torch.cat([upper, 1 - upper], dim=2),
            annotated=torch.ones_like(batch.y, dtype=torch.bool),
            group=batch.y,
        )


def null_pattern(size: int) -> Tensor:
    """Draw a crossed box, white on black, ``(1, size, size)``.

    Its lines are two pixels wide, and its margin is four pixels, as around MNIST's digits.

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
    pixels = torch.arange(size)
    rows, columns = torch.meshgrid(pixels, pixels, indexing="ij")
    first, last = MARGIN, size - 1 - MARGIN
    inside = (rows >= first) & (rows <= last) & (columns >= first) & (columns <= last)
    to_edge = torch.stack([rows - first, last - rows, columns - first, last - columns]).amin(dim=0)
    diagonal = torch.minimum((rows - columns).abs(), (rows + columns - size + 1).abs())
    lit = (to_edge < LINE) | (diagonal < LINE)
    return (inside & lit).float()[None]
