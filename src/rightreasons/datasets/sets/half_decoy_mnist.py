"""Half Decoy MNIST: half of each image is the digit, the other half a grey that tells it."""

from os import PathLike

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from rightreasons.core.checks import check_choice, check_flag, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.sets.decoys import GREYS, drawn_colours
from rightreasons.datasets.sets.mnist import read_mnist
from rightreasons.datasets.splitting import in_memory_splits, stratified
from rightreasons.types import Batch

__all__ = ["half_decoy_mnist"]

CARD = Card(
    name="half_decoy_mnist",
    description="MNIST squeezed into one half of each image; the other half is one grey.",
    source="MNIST, Y. LeCun, C. Cortes and C. J. C. Burges; halves after Ghitu et al. 2025",
    licence="CC BY-SA 3.0",
    shortcut=(
        "The upper or lower half, at random: its grey tells the digit exactly in training and "
        "validation, and is drawn at random at test."
    ),
    classes=tuple(str(digit) for digit in range(10)),
    groups=tuple(f"digit {digit}" for digit in range(10)),
)


def half_decoy_mnist(
    data_dir: str | PathLike[str],
    *,
    colours: str = "faint",
    seed: int = 0,
    oracle: bool = False,
    validation: int = 5000,
    download: bool = False,
) -> Splits:
    """MNIST digits in one half of the image, a grey that tells the label in the other.

    Each digit, 28×28 in [0, 1], is squeezed to half its height (the mean of two rows each) and
    put into the upper or the lower half of the image, at random. The other half is filled with a
    grey: the label's own in training and validation, any of the ten at test. The mask is the
    filled half, ``(N, 1, 28, 28)``; the group is the digit.

    Differs from the paper: some of the 60,000 training images validate, unless ``validation=0``.

    Args:
        data_dir: Where MNIST lies, see `read_mnist`.
        colours: The greys: ``"faint"``, as in the paper, or ``"ross"``; see `decoy_mnist`.
        seed: Of the validation split, the halves and the colours.
        oracle: Draw the colours of training and validation uniformly from all ten, so that they
            tell nothing: what a model reaches that has no shortcut to take. Split, halves and
            test set stay the same.
        validation: How many of the training images to hold out, stratified by digit; 0 for none.
        download: Fetch MNIST into ``data_dir`` if it is not there.

    Raises:
        DatasetNotFoundError: MNIST is not in ``data_dir``.
        DatasetCorruptError: It cannot be read.

    References:
        ghitu2025model
    """
    check_choice("colours", colours, tuple(GREYS))
    rule = "any" if check_flag("oracle", oracle) else "label"
    check_flag("download", download)
    check_integer("validation", validation, low=0)
    split = random_stream(seed, "half_decoy_mnist", "split")
    mnist = read_mnist(data_dir, download=download)
    check_integer("validation", validation, low=0, high=len(mnist.y_train) - 1)
    y_train = torch.from_numpy(mnist.y_train.astype(np.int64))
    y_test = torch.from_numpy(mnist.y_test.astype(np.int64))
    val, train = stratified(y_train, sizes=[validation], stream=split)
    palette = torch.tensor(GREYS[colours])

    def part(name: str, x: NDArray[np.uint8], y: Tensor, rule: str) -> Batch:
        stream = random_stream(seed, "half_decoy_mnist", name)
        return _half_filled(x, y, palette=palette, rule=rule, stream=stream)

    return in_memory_splits(
        train=part("train", mnist.x_train[train.numpy()], y_train[train], rule),
        val=part("val", mnist.x_train[val.numpy()], y_train[val], rule) if validation else None,
        test=part("test", mnist.x_test, y_test, "any"),
        card=CARD,
    )


def _half_filled(
    x: NDArray[np.uint8], y: Tensor, *, palette: Tensor, rule: str, stream: np.random.Generator
) -> Batch:
    images = torch.from_numpy(x.astype(np.float32)).div_(255).unsqueeze(1)
    squeezed = functional.avg_pool2d(images, kernel_size=(2, 1))  # (N, 1, 14, 28)
    on_top = torch.from_numpy(stream.integers(2, size=len(y))).bool().reshape(-1, 1, 1, 1)
    numbers = drawn_colours(y, num_colours=len(palette), rule=rule, stream=stream)
    greys = palette[numbers].reshape(-1, 1, 1, 1)
    in_lower = (torch.arange(images.shape[2]) >= squeezed.shape[2]).reshape(1, 1, -1, 1)
    filled = (in_lower == on_top).expand_as(images)
    both = squeezed.repeat(1, 1, 2, 1)  # the digit in both halves, one of them painted over
    return Batch(x=torch.where(filled, greys, both), y=y, mask=filled, group=y)
