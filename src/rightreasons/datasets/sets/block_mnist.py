"""BlockMNIST: a digit, and a block that says nothing (Shah et al. 2021)."""

import hashlib
from dataclasses import replace
from os import PathLike
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rightreasons.core.checks import check_flag, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Dataset, Splits, TransformedDataset
from rightreasons.datasets.images.pixels import PixelMemory, pixel_places
from rightreasons.datasets.sets.mnist import read_mnist
from rightreasons.datasets.splitting import group_counts
from rightreasons.types import Batch

__all__ = ["NullBlock", "block_mnist", "null_pattern"]

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
class NullBlock(TransformedDataset):
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

    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        """See `TransformedDataset.transform`."""
        x = batch.x
        above = self._above[indices].to(x.device).reshape(-1, 1, 1, 1)
        blocks = self._pattern.to(x).expand_as(x)
        here = above.to(x).expand_as(x)
        return batch.with_(
            x=torch.cat([torch.where(above, blocks, x), torch.where(above, x, blocks)], dim=2),
            mask=torch.cat([here, 1 - here], dim=2),
            annotated=torch.ones_like(batch.y, dtype=torch.bool),
            group=batch.y,
        )


SIZE = 28
CARD = Card(
    name="block_mnist",
    description="MNIST digits with a crossed box above or below them.",
    source="MNIST, Y. LeCun, C. Cortes and C. J. C. Burges; null blocks after Shah et al. 2021",
    licence="CC BY-SA 3.0",
    shortcut=(
        "None: a crossed box above or below the digit tells nothing, in training or at test. What "
        "a model makes of it is leakage."
    ),
    classes=tuple(str(digit) for digit in range(10)),
    groups=tuple(f"digit {digit}" for digit in range(10)),
    shape=(1, 2 * SIZE, SIZE),
)


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
    random. In training the halves are drawn anew in every epoch; validation and test images keep
    theirs, which the seed fixes: with another seed the boxes of the test images are elsewhere. The
    mask is the half with the box, ``(N, 1, 56, 28)``; the group is the digit. The digits are kept
    in memory in 8 bits.

    Differs from the paper: some of the 60,000 training images validate, unless ``validation=0``.
    The paper has one test set; here each seed has its own, of the same digits. It shows the box
    and does not say how wide its lines are; see `null_pattern`.

    Args:
        data_dir: Where MNIST lies, see `read_mnist`.
        seed: Of the validation split, the subset and the halves, those of the test images too.
        subset: How many of the remaining training images to use, stratified by digit; a smaller
            subset is part of a larger one. None for all.
        validation: How many of the training images to hold out, stratified by digit; 0 for none.
        download: Fetch MNIST into ``data_dir`` if it is not there.

    Raises:
        DatasetNotFoundError: MNIST is not in ``data_dir``.
        DatasetCorruptError: It cannot be read.

    References:
        yang2024regulating, shah2021input
    """
    check_integer("validation", validation, low=0)
    if subset is not None:
        check_integer("subset", subset)
    check_flag("download", download)
    check_integer("seed", seed, low=0)
    mnist = read_mnist(data_dir, download=download)
    y_train = torch.from_numpy(mnist.y_train.astype(np.int64))
    y_test = torch.from_numpy(mnist.y_test.astype(np.int64))
    val, train = pixel_places(
        y_train, name=CARD.name, seed=seed, validation=validation, subset=subset
    )
    card = replace(CARD, train_group_counts=group_counts(y_train[train], len(CARD.groups)))

    def part(name: str, x: NDArray[np.uint8], y: Tensor) -> NullBlock:
        digits = Card(shape=(1, SIZE, SIZE), classes=card.classes)
        base = PixelMemory(torch.from_numpy(x[:, None].copy()), y, digits)
        return NullBlock(base, card, seed=seed, part=name, redraws=name == "train")

    return Splits(
        train=part("train", mnist.x_train[train.numpy()], y_train[train]),
        val=part("val", mnist.x_train[val.numpy()], y_train[val]) if validation else None,
        test=part("test", mnist.x_test, y_test),
    )
