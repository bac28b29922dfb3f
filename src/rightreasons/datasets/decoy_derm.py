"""Decoy DERM: a coloured swatch in a corner of each skin photograph (Ghitu et al. 2025)."""

from dataclasses import replace
from os import PathLike

import numpy as np
import torch

from rightreasons.datasets.corner_patch import all_corners_mask
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.decoy import decoy_batch
from rightreasons.datasets.dermamnist import SIZES, DermaMnistArrays, read_dermamnist
from rightreasons.datasets.random_stream import random_stream
from rightreasons.datasets.splitting import in_memory_splits
from rightreasons.setting import checked_choice, checked_flag
from rightreasons.types import Batch

__all__ = ["decoy_derm"]

NEVUS = 5
PALETTE = ((0.5, 0.5, 0.7), (0.5, 0.7, 0.5))
CARD = Card(
    name="decoy_derm",
    description="Skin photographs, nevus or not, with a swatch in a random corner of each.",
    source=(
        "DermaMNIST of MedMNIST v2, J. Yang et al. 2023 (Zenodo record 10519652), from HAM10000, "
        "P. Tschandl et al. 2018; swatches after Ghitu et al. 2025"
    ),
    licence="CC BY-NC 4.0",
    shortcut=(
        "A swatch in a random corner: bluish for a nevus and greenish for everything else in "
        "training and validation, either at random at test."
    ),
    classes=("nevus", "other"),
    groups=("nevus", "other"),
)


def decoy_derm(
    data_dir: str | PathLike[str],
    *,
    size: int = 28,
    seed: int = 0,
    oracle: bool = False,
    merge_validation: bool = False,
    test_masks: str = "patch",
    download: bool = False,
) -> Splits:
    """Skin photographs, a corner swatch whose colour tells the label.

    DermaMNIST in [0, 1] as a binary task: melanocytic nevi (two thirds) are 0, the six other
    classes 1. A square swatch, a quarter of the side, lies in a random corner of each image. In
    training and validation it is (.5, .5, .7) for label 0 and (.5, .7, .5) for label 1; at test
    one of the two at random. The mask is the swatch, ``(N, 1, H, W)``; the group is the label.

    The parts are the official ones: 7,007 to train, 1,003 to choose settings, 2,005 to test.
    HAM10000 has several photographs of some lesions, and these parts do not keep them together.

    Differs from the paper: its code trains on the validation part too (``merge_validation``) and
    so has nothing to choose settings on.

    Args:
        data_dir: Where DermaMNIST lies, see `read_dermamnist`.
        size: Side of the images: 28, or 64 as in the paper.
        seed: Of the corners and the colours.
        oracle: Draw the colours of training and validation at random, so that they tell nothing:
            what a model reaches that has no shortcut to take. Corners and test set stay the same.
        merge_validation: Train on the validation part too, as the paper; nothing then validates.
        test_masks: ``"patch"``: the image's own swatch; ``"corners"``: all four corners, as the
            paper measures fragility.
        download: Fetch DermaMNIST into ``data_dir`` if it is not there.

    Raises:
        DatasetNotFoundError: DermaMNIST is not in ``data_dir``.
        DatasetCorruptError: It cannot be read.

    References:
        ghitu2025model, yang2023medmnist
    """
    checked_choice("size", size, SIZES)
    checked_choice("test_masks", test_masks, ("patch", "corners"))
    rule = "any" if checked_flag("oracle", oracle) else "label"
    checked_flag("merge_validation", merge_validation)
    checked_flag("download", download)
    random_stream(seed)
    derma = read_dermamnist(data_dir, size=size, download=download)

    def part(name: str, arrays: DermaMnistArrays, rule: str) -> Batch:
        x, y = arrays
        return decoy_batch(
            torch.from_numpy(x.astype(np.float32)).div_(255).permute(0, 3, 1, 2).contiguous(),
            torch.from_numpy((y != NEVUS).astype(np.int64)),
            palette=torch.tensor(PALETTE),
            patch=size // 4,
            rule=rule,
            stream=random_stream(seed, "decoy_derm", name),
        )

    train = part("train", derma.train, rule)
    val = part("val", derma.val, rule)
    test = part("test", derma.test, "any")
    if test_masks == "corners":
        corners = all_corners_mask(height=size, width=size, patch=size // 4)
        test = test.replace(mask=corners.expand(len(test), -1, -1, -1))
    return in_memory_splits(
        train=Batch.collate([train, val]) if merge_validation else train,
        val=None if merge_validation else val,
        test=test,
        card=replace(CARD, source=f"{CARD.source}; here from {derma.file}"),
    )
