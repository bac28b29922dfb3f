"""Half Decoy MNIST: half of each image is the digit, the other half a grey that tells it."""

from dataclasses import replace
from os import PathLike

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from rightreasons.core.checks import check_choice, check_flag
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Splits
from rightreasons.datasets.sets.decoys import GREYS, draw_colours
from rightreasons.datasets.sets.mnist import DIGITS_CARD, split_mnist
from rightreasons.datasets.splitting import in_memory_splits
from rightreasons.types import Batch

__all__ = ["half_decoy_mnist"]

CARD = replace(
    DIGITS_CARD,
    name="half_decoy_mnist",
    description="MNIST squeezed into one half of each image; the other half is one grey.",
    source=f"{DIGITS_CARD.source}; halves after Ghitu et al. 2025",
    shortcut=(
        "The upper or lower half, at random: its grey tells the digit exactly in training and "
        "validation, and is drawn at random at test."
    ),
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

    Each digit, 28×28 in [0, 1], is squeezed to half its height: the mean of two rows each. It is
    put into the upper or the lower half of the image, at random. The other half is filled with a
    grey: the label's own in training and validation, any of the ten at test. The mask is the
    filled half, ``(N, 1, 28, 28)``; the group is the digit.

    Differs from the paper: some of the 60,000 training images validate, unless ``validation=0``.

    Args:
        data_dir: Folder with MNIST, as in `read_mnist`.
        colours: The greys: ``"faint"``, as in the paper, or ``"ross"``, as in `decoy_mnist`.
        seed: Random seed for the validation split, the halves and the colours.
        oracle: Whether to draw the training and validation colours uniformly from all ten, so
            that they tell nothing. A model trained on such data has no shortcut to learn. Split,
            halves and test set stay the same.
        validation: Number of training images to hold out, stratified by digit; 0 for none.
        download: Whether to download MNIST into ``data_dir`` if it is not there.

    Raises:
        DatasetNotFoundError: MNIST is not in ``data_dir``.
        DatasetCorruptError: A file of MNIST cannot be read.

    References:
        ghitu2025model
    """
    check_choice("colours", colours, tuple(GREYS))
    rule = "any" if check_flag("oracle", oracle) else "label"
    parts = split_mnist(data_dir, CARD.name, seed=seed, validation=validation, download=download)
    palette = torch.tensor(GREYS[colours])
    rules = {"train": rule, "val": rule, "test": "any"}
    batches = {
        part: _fill_halves(
            x, y, palette=palette, rule=rules[part], stream=random_stream(seed, CARD.name, part)
        )
        for part, (x, y) in parts.items()
    }
    return in_memory_splits(
        train=batches["train"], val=batches.get("val"), test=batches["test"], card=CARD
    )


def _fill_halves(
    x: NDArray[np.uint8], y: Tensor, *, palette: Tensor, rule: str, stream: np.random.Generator
) -> Batch:
    """Squeeze each digit into one half of its image and fill the other half with a grey."""
    images = torch.from_numpy(x.astype(np.float32)).div_(255).unsqueeze(1)
    squeezed = functional.avg_pool2d(images, kernel_size=(2, 1))  # (N, 1, 14, 28)
    on_top = torch.from_numpy(stream.integers(2, size=len(y))).bool().reshape(-1, 1, 1, 1)
    numbers = draw_colours(y, num_colours=len(palette), rule=rule, stream=stream)
    greys = palette[numbers].reshape(-1, 1, 1, 1)
    in_lower = (torch.arange(images.shape[2]) >= squeezed.shape[2]).reshape(1, 1, -1, 1)
    filled = (in_lower == on_top).expand_as(images)
    both = squeezed.repeat(1, 1, 2, 1)  # the digit in both halves, one of them painted over
    return Batch(x=torch.where(filled, greys, both), y=y, mask=filled, group=y)
