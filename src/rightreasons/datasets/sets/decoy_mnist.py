"""Decoy MNIST: a grey patch in a corner of each digit (Ross et al. 2017)."""

from dataclasses import replace
from os import PathLike

import numpy as np
import torch

from rightreasons.core.checks import check_choice, check_flag
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Splits
from rightreasons.datasets.sets.decoys import GREYS, all_corners_mask, decoy_batch
from rightreasons.datasets.sets.mnist import DIGITS_CARD, split_mnist
from rightreasons.datasets.splitting import in_memory_splits
from rightreasons.types import Batch

__all__ = ["decoy_mnist"]

PATCH = 4
CARD = replace(
    DIGITS_CARD,
    name="decoy_mnist",
    description="MNIST with a 4×4 patch in a random corner of each image.",
    source=f"{DIGITS_CARD.source}; patches after Ross et al. 2017",
    shortcut=(
        "A patch in a random corner: its grey tells the digit exactly in training and validation, "
        "and is drawn at random at test."
    ),
)
TEST_RULES = {"ross": "any", "faint": "wrong"}


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
    label's grey. This recolours digit pixels in a quarter of the images and leaves one patch in
    a hundred with the label's own grey. Here only patches are coloured, and never with it. Both
    train on all 60,000 images; here some of them validate, unless ``validation=0``.

    Args:
        data_dir: Folder with MNIST, as in `read_mnist`.
        colours: ``"ross"`` or ``"faint"``.
        seed: Random seed for the validation split, the corners and the colours.
        oracle: Whether to draw the training and validation colours uniformly from all ten, so
            that they tell nothing. A model trained on such data has no shortcut to learn. Split,
            corners and test set stay the same.
        validation: Number of training images to hold out, stratified by digit; 0 for none.
        test_masks: ``"patch"``: the 16 pixels of the patch; ``"corners"``: the 64 pixels of all
            four corners, for which the paper measures fragility.
        download: Whether to download MNIST into ``data_dir`` if it is not there.

    Raises:
        DatasetNotFoundError: MNIST is not in ``data_dir``.
        DatasetCorruptError: A file of MNIST cannot be read.
    """
    check_choice("colours", colours, tuple(GREYS))
    check_choice("test_masks", test_masks, ("patch", "corners"))
    rule = "any" if check_flag("oracle", oracle) else "label"
    parts = split_mnist(data_dir, CARD.name, seed=seed, validation=validation, download=download)
    palette = torch.tensor(GREYS[colours])

    def add_patches(part: str, rule: str) -> Batch:
        pixels, y = parts[part]
        x = torch.from_numpy(pixels.astype(np.float32)).div_(255).unsqueeze(1)
        stream = random_stream(seed, CARD.name, part)
        return decoy_batch(x, y, palette=palette, patch=PATCH, rule=rule, stream=stream)

    test = add_patches("test", TEST_RULES[colours])
    if test_masks == "corners":
        corners = all_corners_mask(height=28, width=28, patch=PATCH)
        test = test.replace(mask=corners.expand(len(test), -1, -1, -1).contiguous())
    return in_memory_splits(
        train=add_patches("train", rule),
        val=add_patches("val", rule) if "val" in parts else None,
        test=test,
        card=CARD,
    )
