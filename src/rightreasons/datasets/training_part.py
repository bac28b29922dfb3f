"""Exchanging the training part of a data set for a changed one, whatever kind it is."""

import copy
from collections.abc import Callable
from dataclasses import replace

from rightreasons.datasets.augmented import Augmented
from rightreasons.datasets.dataset import Card, Dataset, Splits
from rightreasons.errors import InvalidSettingError

__all__ = ["checked_fraction", "with_training"]


def checked_fraction(name: str, value: object) -> float:
    """Give ``value`` back as a float if it is a number from 0 to 1, both included."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise InvalidSettingError(
            f"Expected `{name}` to be a number from 0 to 1, but got {value!r}."
        )
    return float(value)


def with_training(splits: Splits, change: Callable[[Dataset], Dataset], *, said: str) -> Splits:
    """Change the training data; the other parts keep their samples and share the new card.

    Data that training sees flipped and cropped are changed before that.

    Args:
        splits: Left as they are.
        change: From the training data to others of the same classes and groups.
        said: A sentence for the card's description.
    """
    train = splits.train
    if isinstance(train, Augmented):
        changed: Dataset = Augmented(
            change(train.base), flip=train.flip, crop=train.crop, seed=train.seed, epoch=train.epoch
        )
    else:
        changed = change(train)
    card = changed.card
    card = replace(card, description=f"{card.description} {said}".strip())
    val = None if splits.val is None else _under(splits.val, card)
    return Splits(
        train=_under(changed, card),
        val=val,
        test=_under(splits.test, card),
        more_tests={name: _under(part, card) for name, part in splits.more_tests.items()},
    )


def _under(part: Dataset, card: Card) -> Dataset:
    """The same data under another card."""
    same = copy.copy(part)
    same.card = card
    return same
