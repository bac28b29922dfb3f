"""BlockMNIST: a digit, and a block that says nothing (Shah et al. 2021)."""

from dataclasses import replace
from os import PathLike

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.mnist import read_mnist
from rightreasons.datasets.null_block import NullBlock
from rightreasons.datasets.pixel_memory import PixelMemory
from rightreasons.datasets.pixel_splits import pixel_places
from rightreasons.datasets.splitting import group_counts
from rightreasons.setting import checked_flag, checked_number

__all__ = ["block_mnist"]

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
    checked_number("validation", validation, low=0)
    if subset is not None:
        checked_number("subset", subset)
    checked_flag("download", download)
    checked_number("seed", seed, low=0)
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
