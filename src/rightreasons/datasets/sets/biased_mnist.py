"""Biased MNIST: a blue square in a corner of most digits 0 to 4 and of few others."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rightreasons.core.checks import check_choice, check_flag
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, InMemory, Splits
from rightreasons.datasets.sets.decoys import corner_mask
from rightreasons.datasets.sets.mnist import DIGITS_CARD, split_mnist
from rightreasons.datasets.splitting import in_memory_splits
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
    source=f"{DIGITS_CARD.source}; squares after Taghanaki et al. 2022",
    licence=DIGITS_CARD.licence,
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
    oracle: bool = False,
    seed: int = 0,
    validation: int = 5000,
    subset: int | None = None,
    download: bool = False,
) -> Splits:
    """Digits 0-4 against 5-9; a coloured square in a corner tells them apart.

    Images are RGB, 28×28 in [0, 1]. In training and validation ``share`` of the digits from 0 to 4
    and ``1 - share`` of the others get a blue 4×4 square in the top left corner. With two squares,
    a red one in the bottom right follows the same rule, independently of the first. There are two
    test sets. In ``original`` no image has a square; in ``biased`` all digits from 5 to 9 have
    every square and the others none. Runs evaluate both: one is the test part, the other is in
    `more_tests`.

    The mask covers the corners where squares may be, in every image. The group is the class
    combined with the squares of the image.

    Differs from the paper: some of the 60,000 training images validate, unless ``validation=0``.
    The paper does not give the position and colour of its second patch, nor whether the two occur
    together.

    Args:
        data_dir: Folder with MNIST, as in `read_mnist`.
        squares: Number of squares, 1 or 2.
        share: Fraction of the first class with a square; 0.99 in the paper.
        test: The test set to use as the test part.
        oracle: Whether to set ``share`` to one half, so that squares tell nothing. A model trained
            on such data has no shortcut to learn. The test sets stay the same.
        seed: Random seed for the validation split and the squares.
        validation: Number of training images to hold out, stratified by digit; 0 for none.
        subset: Number of the other images to train on, stratified by digit; None for all.
        download: Whether to download MNIST into ``data_dir`` if it is not there.

    Raises:
        DatasetNotFoundError: MNIST is not in ``data_dir``.
        DatasetCorruptError: A file of MNIST cannot be read.

    References:
        asgari2022masktune
    """
    check_choice("squares", squares, tuple(WHERE))
    check_choice("test", test, ("original", "biased"))
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0.5 <= share <= 1:
        raise InvalidSettingError(
            f"Expected `share` to be a number from 0.5 to 1, but got {share!r}."
        )
    share = 0.5 if check_flag("oracle", oracle) else share
    parts = split_mnist(
        data_dir, CARD.name, seed=seed, validation=validation, subset=subset, download=download
    )

    def add_squares(part: str) -> Batch:
        pixels, digits = parts[part]
        y = (digits >= 5).long()
        stream = random_stream(seed, CARD.name, part)
        probability = torch.where(y == 0, share, 1 - share)[:, None]
        has_square = torch.from_numpy(stream.random((len(y), squares))) < probability
        return _paint_squares(pixels, y, has_square)

    x_test, test_digits = parts["test"]
    y_test = (test_digits >= 5).long()
    tests = {
        "original": torch.zeros(len(y_test), squares, dtype=torch.bool),
        "biased": (y_test == 1)[:, None].expand(-1, squares),
    }
    groups = tuple(f"{name}, {where}" for name in CLASSES for where in WHERE[squares])
    splits = in_memory_splits(
        train=add_squares("train"),
        val=add_squares("val") if "val" in parts else None,
        test=_paint_squares(x_test, y_test, tests.pop(test)),
        card=replace(CARD, groups=groups),
    )
    more = {
        name: InMemory(_paint_squares(x_test, y_test, has_square), splits.card)
        for name, has_square in tests.items()
    }
    return replace(splits, more_tests=more)


def _paint_squares(pixels: NDArray[np.uint8], y: Tensor, has_square: Tensor) -> Batch:
    """Paint squares into grey images; ``has_square`` is ``(N, squares)`` booleans."""
    grey = torch.from_numpy(pixels.astype(np.float32)).div_(255).unsqueeze(1)
    x = grey.repeat(1, 3, 1, 1)
    corners = [
        corner_mask(torch.tensor([CORNERS[number]]), height=28, width=28, patch=PATCH)
        for number in range(has_square.shape[1])
    ]
    for number, inside in enumerate(corners):
        colour = torch.tensor(COLOURS[number]).reshape(1, 3, 1, 1)
        x = torch.where(inside & has_square[:, number].reshape(-1, 1, 1, 1), colour, x)
    mask = torch.stack(corners).any(dim=0).float().expand(len(y), -1, -1, -1).contiguous()
    num_squares = has_square.shape[1]
    combination = has_square.long() @ (2 ** torch.arange(num_squares))
    return Batch(x=x, y=y, mask=mask, group=y * 2**num_squares + combination)
