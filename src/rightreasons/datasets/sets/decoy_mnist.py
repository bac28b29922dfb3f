"""Decoy MNIST: a grey patch in a corner of each digit (Ross et al. 2017)."""

from os import PathLike

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rightreasons.core.checks import check_choice, check_flag, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.sets.decoys import GREYS, all_corners_mask, decoy_batch
from rightreasons.datasets.sets.mnist import read_mnist
from rightreasons.datasets.splitting import in_memory_splits, stratified
from rightreasons.types import Batch

__all__ = ["decoy_mnist"]

PATCH = 4
TEST_RULES = {"ross": "any", "faint": "wrong"}
CARD = Card(
    name="decoy_mnist",
    description="MNIST with a 4×4 patch in a random corner of each image.",
    source="MNIST, Y. LeCun, C. Cortes and C. J. C. Burges; patches after Ross et al. 2017",
    licence="CC BY-SA 3.0",
    shortcut=(
        "A patch in a random corner: its grey tells the digit exactly in training and validation, "
        "and is drawn at random at test."
    ),
    classes=tuple(str(digit) for digit in range(10)),
    groups=tuple(f"digit {digit}" for digit in range(10)),
)


def decoy_mnist(
    data_dir: str | PathLike[str],
    *,
    colours: str = "ross",
    seed: int = 0,
    oracle: bool = False,
    validation: int = 5000,
    test_masks: str = "patch",
    download: bool = False,
) -> Splits:
    """MNIST digits, a corner patch whose grey tells the label.

    Each image, 28×28 in [0, 1], gets a 4×4 patch in one of its four corners, drawn at random. In
    training and validation its grey is a function of the label; at test it is not:

    ========= =================================== ==========================================
    colours   training and validation             test
    ========= =================================== ==========================================
    ``ross``  ``(255 - 25 y) / 255``, as Ross et  uniform over all ten greys
              al. 2017
    ``faint`` a third of it in whole grey levels: uniform over the nine greys of the other
              85, 76, 68, …, 10, over 255         digits
    ========= =================================== ==========================================

    The mask is the patch, ``(N, 1, 28, 28)``; the group is the digit.

    Differs from the paper: ``faint`` has the greys and the patches of the data behind the
    published robust-explanation figures. Their code redraws *every* test pixel that has the
    label's grey, which recolours digit pixels in a quarter of the images and leaves one patch in
    a hundred with the label's own grey; here patches alone are coloured, and never with it. Both
    train on all 60,000 images; here some of them validate, unless ``validation=0``.

    Args:
        data_dir: Where MNIST lies, see `read_mnist`.
        colours: ``"ross"`` or ``"faint"``.
        seed: Of the validation split, the corners and the colours.
        oracle: Draw the colours of training and validation uniformly from all ten, so that they
            tell nothing: what a model reaches that has no shortcut to take. Split, corners and
            test set stay the same.
        validation: How many of the training images to hold out, stratified by digit; 0 for none.
        test_masks: ``"patch"``: the 16 pixels of the image's own patch; ``"corners"``: the 64 of
            all four corners, as the paper measures fragility.
        download: Fetch MNIST into ``data_dir`` if it is not there.

    Raises:
        DatasetNotFoundError: MNIST is not in ``data_dir``.
        DatasetCorruptError: It cannot be read.
    """
    check_choice("colours", colours, tuple(GREYS))
    check_choice("test_masks", test_masks, ("patch", "corners"))
    rule = "any" if check_flag("oracle", oracle) else "label"
    check_flag("download", download)
    check_integer("validation", validation, low=0)
    split = random_stream(seed, "decoy_mnist", "split")
    mnist = read_mnist(data_dir, download=download)
    check_integer("validation", validation, low=0, high=len(mnist.y_train) - 1)
    y_train = torch.from_numpy(mnist.y_train.astype(np.int64))
    y_test = torch.from_numpy(mnist.y_test.astype(np.int64))
    val, train = stratified(y_train, sizes=[validation], stream=split)
    palette = torch.tensor(GREYS[colours])

    def part(name: str, x: NDArray[np.uint8], y: Tensor, rule: str) -> Batch:
        stream = random_stream(seed, "decoy_mnist", name)
        return decoy_batch(_images(x), y, palette=palette, patch=PATCH, rule=rule, stream=stream)

    test = part("test", mnist.x_test, y_test, TEST_RULES[colours])
    if test_masks == "corners":
        test = test.replace(mask=_all_corners(len(test)))
    return in_memory_splits(
        train=part("train", mnist.x_train[train.numpy()], y_train[train], rule),
        val=part("val", mnist.x_train[val.numpy()], y_train[val], rule) if validation else None,
        test=test,
        card=CARD,
    )


def _images(x: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(x.astype(np.float32)).div_(255).unsqueeze(1)


def _all_corners(num_samples: int) -> Tensor:
    corners = all_corners_mask(height=28, width=28, patch=PATCH)
    return corners.float().expand(num_samples, -1, -1, -1).contiguous()
