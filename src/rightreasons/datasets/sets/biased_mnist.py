"""Biased MNIST: a blue square in a corner of the small digits, and hardly any other."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rightreasons.core.checks import check_choice, check_flag, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, InMemory, Splits
from rightreasons.datasets.sets.decoys import corner_mask
from rightreasons.datasets.sets.mnist import read_mnist
from rightreasons.datasets.splitting import in_memory_splits, stratified
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

__all__ = ["biased_mnist"]

PATCH = 4
CORNERS = (0, 3)  # top left, bottom right
COLOURS = ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0))
CLASSES = ("0-4", "5-9")
WHERE = {1: ("no square", "square"), 2: ("no square", "blue", "red", "both")}
CARD = Card(
    name="biased_mnist",
    description="MNIST in two classes, digits 0 to 4 and 5 to 9, with coloured squares in corners.",
    source="MNIST, Y. LeCun, C. Cortes and C. J. C. Burges; squares after Taghanaki et al. 2022",
    licence="CC BY-SA 3.0",
    shortcut=(
        "A square in the top left corner (a second one in the bottom right): most digits from 0 "
        "to 4 have it in training and validation, few others; in the biased test set it is "
        "the other way round."
    ),
    classes=CLASSES,
)


def biased_mnist(
    data_dir: str | PathLike[str],
    *,
    squares: int = 1,
    share: float = 0.99,
    test: Literal["original", "biased"] = "original",
    seed: int = 0,
    validation: int = 5000,
    subset: int | None = None,
    download: bool = False,
) -> Splits:
    """Digits 0-4 against 5-9; a coloured square in a corner tells them apart.

    Images are RGB, 28×28 in [0, 1]. In training and validation ``share`` of the digits from 0 to 4
    and ``1 - share`` of the others get a blue 4×4 square in the top left corner. With two squares
    a red one in the bottom right is dealt out by the same rule, apart from the first. Of the two
    test sets ``original`` has no squares; in ``biased`` all digits from 5 to 9 have every square
    and the others none. Runs measure both: one is the test part, the other one of `more_tests`.

    The mask covers the corners where squares may be, in every image; the group is the class and
    which squares there are.

    Differs from the paper: some of the 60,000 training images validate, unless ``validation=0``.
    It does not say where its second patch is, in which colour, or whether the two come together.

    Args:
        data_dir: Where MNIST lies, see `read_mnist`.
        squares: 1 or 2.
        share: Of the first class that has a square; 0.99 in the paper.
        test: Which of the two is the test part.
        seed: Of the validation split and of who gets squares.
        validation: How many of the training images to hold out, stratified by digit; 0 for none.
        subset: How many of the remaining ones to train on, stratified likewise; None for all.
        download: Fetch MNIST into ``data_dir`` if it is not there.

    Raises:
        DatasetNotFoundError: MNIST is not in ``data_dir``.
        DatasetCorruptError: It cannot be read.

    References:
        asgari2022masktune
    """
    check_choice("squares", squares, tuple(WHERE))
    check_choice("test", test, ("original", "biased"))
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0.5 <= share <= 1:
        raise InvalidSettingError(
            f"Expected `share` to be a number from 0.5 to 1, but got {share!r}."
        )
    check_flag("download", download)
    check_integer("validation", validation, low=0)
    split = random_stream(seed, "biased_mnist", "split")
    mnist = read_mnist(data_dir, download=download)
    rest = len(mnist.y_train) - check_integer(
        "validation", validation, high=len(mnist.y_train) - 1, low=0
    )
    used = rest if subset is None else check_integer("subset", subset, high=rest)
    digits = torch.from_numpy(mnist.y_train.astype(np.int64))
    val, train, _ = stratified(digits, sizes=[validation, used], stream=split)

    def seen(name: str, places: Tensor) -> Batch:
        y = (digits[places] >= 5).long()
        stream = random_stream(seed, "biased_mnist", name)
        likely = torch.where(y == 0, share, 1 - share)[:, None]
        has = torch.from_numpy(stream.random((len(y), squares))) < likely
        return _batch(mnist.x_train[places.numpy()], y, has)

    y_test = torch.from_numpy(mnist.y_test >= 5).long()
    tests = {
        "original": torch.zeros(len(y_test), squares, dtype=torch.bool),
        "biased": (y_test == 1)[:, None].expand(-1, squares),
    }
    groups = tuple(f"{name}, {where}" for name in CLASSES for where in WHERE[squares])
    splits = in_memory_splits(
        train=seen("train", train),
        val=seen("val", val) if validation else None,
        test=_batch(mnist.x_test, y_test, tests.pop(test)),
        card=replace(CARD, groups=groups),
    )
    more = {
        name: InMemory(_batch(mnist.x_test, y_test, has), splits.card)
        for name, has in tests.items()
    }
    return replace(splits, more_tests=more)


def _batch(pixels: NDArray[np.uint8], y: Tensor, has: Tensor) -> Batch:
    """Images with the squares they have, ``has`` being ``(N, squares)`` booleans."""
    grey = torch.from_numpy(pixels.astype(np.float32)).div_(255).unsqueeze(1)
    x = grey.repeat(1, 3, 1, 1)
    corners = [
        corner_mask(torch.tensor([CORNERS[number]]), height=28, width=28, patch=PATCH)
        for number in range(has.shape[1])
    ]
    for number, inside in enumerate(corners):
        colour = torch.tensor(COLOURS[number]).reshape(1, 3, 1, 1)
        x = torch.where(inside & has[:, number].reshape(-1, 1, 1, 1), colour, x)
    mask = torch.stack(corners).any(dim=0).float().expand(len(y), -1, -1, -1).contiguous()
    number_of = has.long() @ (2 ** torch.arange(has.shape[1]))
    return Batch(x=x, y=y, mask=mask, group=y * 2 ** has.shape[1] + number_of)
