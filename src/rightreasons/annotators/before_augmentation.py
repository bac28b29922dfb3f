"""Put masks on images before training sees these flipped and moved."""

from __future__ import annotations

from collections.abc import Callable

from rightreasons.datasets import Augmented, Dataset
from rightreasons.datasets.remasked import Remasked
from rightreasons.errors import InvalidSettingError

__all__ = ["before_augmentation"]


def before_augmentation(data: Dataset, change: Callable[[Dataset], Dataset]) -> Dataset:
    """Change data whose images are augmented on the way, below the augmentation.

    Args:
        data: Perhaps `Augmented`, perhaps with changed masks on top of that.
        change: What gives the data other masks, each for an image as it is in the data.
    """
    if isinstance(data, Augmented):
        inner = change(data.base)
        return Augmented(inner, flip=data.flip, crop=data.crop, seed=data.seed, epoch=data.epoch)
    if isinstance(data, Remasked):
        own = data
        return before_augmentation(
            data.base, lambda base: change(Remasked(base, own.change, key=own.key))
        )
    inside: object = data
    while (inside := getattr(inside, "base", None)) is not None:
        if isinstance(inside, Augmented):
            raise InvalidSettingError(
                f"Expected data that are flipped and cropped last, but {type(data).__name__} is "
                "on top of that, where a mask would not fit its image. Put `Augmented` on top."
            )
    return change(data)
