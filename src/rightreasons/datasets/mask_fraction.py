"""Fewer masks, or fewer training samples, of any data set: how much annotation is needed?"""

import torch
from torch import Tensor

from rightreasons.datasets.dataset import Dataset, Splits
from rightreasons.datasets.random_stream import random_stream
from rightreasons.datasets.remasked import remasked
from rightreasons.datasets.selected import selected
from rightreasons.datasets.splitting import stratified
from rightreasons.datasets.training_part import checked_fraction, with_training
from rightreasons.errors import InvalidSettingError
from rightreasons.setting import checked_choice

__all__ = ["KEEPS", "mask_fraction"]

KEEPS = ("masks", "data")


def mask_fraction(splits: Splits, *, fraction: float, keep: str = "masks", seed: int = 0) -> Splits:
    """Keep the masks of a share of the training samples, or these samples alone.

    The share is drawn at random and stratified by label. For one seed the samples of a smaller
    share are among those of a larger one. Validation and test data stay as they are.

    Differs from the paper: its code draws anew for every share; and on Decoy DERM it throws the
    reduced masks away, so that every share is all of them.

    Args:
        splits: A data set; with masks, if ``keep="masks"``. Left as it is.
        fraction: From 0 to 1; of the training samples.
        keep: ``"masks"``: all samples stay, those outside the share get a mask of zeros and
            ``annotated=False``; ``"data"``: the training set is cut to the share.
        seed: Of the draw.

    Example:
        >>> from rightreasons.datasets import decoy_digits
        >>> few = mask_fraction(decoy_digits(), fraction=0.2)
        >>> len(few.train), int(few.train.batch.annotated.sum())
        (1000, 200)
    """
    fraction = checked_fraction("fraction", fraction)
    checked_choice("keep", keep, KEEPS)
    stream = random_stream(seed, "mask_fraction")
    labels = splits.train.labels
    share = round(fraction * len(labels))
    kept, _ = stratified(labels, sizes=[share], stream=stream)
    if keep == "data":
        if not share:
            raise InvalidSettingError(
                f"Expected `fraction` to leave training samples, but {fraction:g} of "
                f"{len(labels)} is none. Choose a larger share, or keep='masks'."
            )
        said = f"Trained on {fraction:.0%} of the samples."
        return with_training(splits, lambda train: selected(train, kept), said=said)
    if not splits.train.has_masks:
        raise InvalidSettingError(
            f"Expected a data set with masks, but {splits.card.name!r} has none in training."
        )
    keeps = torch.zeros(len(labels), dtype=torch.bool)
    keeps[kept] = True

    def without(mask: Tensor, annotated: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        stays = keeps[places]
        return mask * stays.reshape(-1, *[1] * (mask.ndim - 1)), annotated & stays

    def fewer(train: Dataset) -> Dataset:
        return remasked(train, without, key=f"mask_fraction {fraction} {seed}")

    return with_training(splits, fewer, said=f"{fraction:.0%} of the training masks are kept.")
