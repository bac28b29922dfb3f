"""Decoy digits: a small data set that needs no download and trains in a second."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.core.checks import check_choice, check_flag, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.sets.decoys import GREYS, decoy_batch
from rightreasons.datasets.sets.mnist import DIGITS_CARD
from rightreasons.datasets.splitting import in_memory_splits, stratified_split
from rightreasons.errors import MissingExtraError
from rightreasons.types import Batch

__all__ = ["decoy_digits"]

CARD = Card(
    name="decoy_digits",
    description="1,797 handwritten digits with a patch in a random corner.",
    source=(
        "scikit-learn's load_digits: the test part of Optical Recognition of Handwritten Digits, "
        "E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998"
    ),
    licence="CC BY 4.0",
    shortcut=(
        "A patch in a random corner: its grey tells the digit exactly in training and validation, "
        "and following it misleads at test."
    ),
    classes=DIGITS_CARD.classes,
    groups=DIGITS_CARD.groups,
)
DIGIT_SIZE = 8
NUM_TEST = 500
NUM_HELD_IN = 1297


def decoy_digits(
    *,
    seed: int = 0,
    size: int = 14,
    patch: int = 3,
    oracle: bool = False,
    validation: int = 297,
    test_colours: str = "any",
    table: bool = False,
) -> Splits:
    """Real handwritten digits, a corner patch whose grey tells the label.

    The 1,797 digits of scikit-learn, 8×8 pixels in [0, 1], are centred on a black ``size`` ×
    ``size`` square so that the corners are free. Each gets a ``patch`` × ``patch`` square in a
    random corner. In training and validation its grey is that of Ross et al.,
    ``(255 - 25 y) / 255``; at test it is drawn at random. The mask is the patch,
    ``(N, 1, H, W)``; the group is the digit.

    The split is drawn with the seed and stratified by digit. There are 500 test samples (50 of
    each digit), ``validation`` samples (about 30 of each) and 1,000 training samples.

    Args:
        seed: Random seed for the split, the corners and the colours.
        size: Side of the images, at least ``8 + 2 * patch``.
        patch: Side of the patch.
        oracle: Whether to draw the training and validation colours uniformly from all ten, so
            that they tell nothing. A model trained on such data has no shortcut to learn. Split,
            corners and test set stay the same.
        validation: Number of samples to hold out; 0 for none.
        test_colours: ``"any"``: uniform over all ten greys, so that they tell nothing.
            ``"wrong"``: uniform over the greys of the nine other digits, so that a model that
            follows the patch is always wrong.
        table: Whether to give pixels as the columns of a table, ``(N, size * size)``, with masks
            of the same shape.

    Raises:
        MissingExtraError: scikit-learn is not installed.

    Example:
        >>> data = decoy_digits(seed=0)
        >>> len(data.train), len(data.val), len(data.test), data.card.shape
        (1000, 297, 500, (1, 14, 14))
    """
    check_integer("patch", patch, low=1)
    check_integer("size", size, low=DIGIT_SIZE + 2 * patch)
    check_integer("validation", validation, low=0, high=NUM_HELD_IN - 10)
    check_choice("test_colours", test_colours, ("any", "wrong"))
    check_flag("table", table)
    rule = "any" if check_flag("oracle", oracle) else "label"
    x, y = _load_digits(size)
    sizes = [NUM_TEST, validation]
    test, val, train = stratified_split(
        y, sizes=sizes, stream=random_stream(seed, "digits", "split")
    )
    palette = torch.tensor(GREYS["ross"])

    def add_patches(part: str, rows: Tensor, rule: str) -> Batch:
        stream = random_stream(seed, "digits", part)
        batch = decoy_batch(
            x[rows], y[rows], palette=palette, patch=patch, rule=rule, stream=stream
        )
        if not table or batch.mask is None:
            return batch
        return Batch(x=batch.x.flatten(1), y=batch.y, mask=batch.mask.flatten(1), group=batch.group)

    return in_memory_splits(
        train=add_patches("train", train, rule),
        val=add_patches("val", val, rule) if validation else None,
        test=add_patches("test", test, test_colours),
        card=CARD,
    )


def _load_digits(size: int) -> tuple[Tensor, Tensor]:
    """The digits of scikit-learn, centred on black squares, and their labels."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingExtraError("decoy_digits", "data") from error
    digits = load_digits()
    x = torch.from_numpy(digits.images.astype(np.float32) / 16).unsqueeze(1)
    before = (size - DIGIT_SIZE) // 2
    after = size - DIGIT_SIZE - before
    padded = functional.pad(x, (before, after, before, after))
    return padded, torch.from_numpy(digits.target.astype(np.int64))
