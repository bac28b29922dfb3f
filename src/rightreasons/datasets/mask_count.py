"""A number of masks, whatever the size of the data: what can be annotated in an afternoon?"""

import torch
from torch import Tensor

from rightreasons.datasets.dataset import Dataset, Splits
from rightreasons.datasets.random_stream import random_stream
from rightreasons.datasets.remasked import remasked
from rightreasons.datasets.splitting import stratified
from rightreasons.datasets.training_part import with_training
from rightreasons.errors import InvalidSettingError
from rightreasons.setting import checked_number

__all__ = ["mask_count"]

CHUNK = 500


def mask_count(splits: Splits, *, num_masks: int, seed: int = 0) -> Splits:
    """Keep so many of the training masks that are not empty.

    They are drawn at random and stratified by label. All other training samples get a mask of
    zeros and ``annotated=False``, those too whose mask was empty before: nobody looked at them.
    For one seed fewer masks are among more. Validation and test data stay as they are. All
    training masks are read once.

    Args:
        splits: A data set with masks. Left as it is.
        num_masks: How many, from 0; no more than there are.
        seed: Of the draw.

    Example:
        >>> from rightreasons.datasets import decoy_digits
        >>> few = mask_count(decoy_digits(), num_masks=20)
        >>> len(few.train), int(few.train.batch.annotated.sum())
        (1000, 20)
    """
    num_masks = checked_number("num_masks", num_masks, low=0)
    if not splits.train.has_masks:
        raise InvalidSettingError(
            f"Expected a data set with masks, but {splits.card.name!r} has none in training."
        )
    stream = random_stream(seed, "mask_count")
    keeps = torch.zeros(len(splits.train), dtype=torch.bool)

    def without(mask: Tensor, annotated: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        stays = keeps[places]
        return mask * stays.reshape(-1, *[1] * (mask.ndim - 1)), annotated & stays

    def fewer(train: Dataset) -> Dataset:
        masked = _masked_places(train)
        if num_masks > len(masked):
            raise InvalidSettingError(
                f"Expected `num_masks` of at most {len(masked)}, the training masks of "
                f"{splits.card.name!r} that are not empty, but got {num_masks}."
            )
        kept, _ = stratified(train.labels[masked], sizes=[num_masks], stream=stream)
        keeps[masked[kept]] = True
        return remasked(train, without, key=f"mask_count {num_masks} {seed}")

    return with_training(splits, fewer, said=f"{num_masks} training masks are kept.")


def _masked_places(data: Dataset) -> Tensor:
    places = torch.arange(len(data))
    found = [
        rows[mask.flatten(1).any(dim=1).cpu()]
        for rows in torch.split(places, CHUNK)
        if (mask := data.take(rows).mask) is not None
    ]
    return torch.cat(found) if found else places[:0]
