"""Learning-rate schedules by name."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import optim

from rightreasons.core.checks import Registry
from rightreasons.errors import InvalidSettingError

__all__ = ["SCHEDULERS", "constant", "cosine", "read_milestones", "step"]


def cosine(optimizer: optim.Optimizer, num_updates: int) -> optim.lr_scheduler.LRScheduler:
    """From the full rate down to zero along half a cosine."""
    return optim.lr_scheduler.LambdaLR(
        optimizer, lambda update: 0.5 * (1 + math.cos(math.pi * update / num_updates))
    )


def constant(optimizer: optim.Optimizer, num_updates: int) -> optim.lr_scheduler.LRScheduler:
    """The full rate throughout."""
    del num_updates
    return optim.lr_scheduler.LambdaLR(optimizer, lambda update: 1.0)


def step(
    optimizer: optim.Optimizer,
    num_updates: int,
    *,
    every: float = 1 / 3,
    at: Sequence[float] = (),
    factor: float = 0.1,
) -> optim.lr_scheduler.LRScheduler:
    """The rate times a factor after each part of the training.

    Args:
        optimizer: The optimizer.
        num_updates: Number of updates of the whole training.
        every: Share of the training between two steps.
        at: Shares of the training after which the rate steps, in place of ``every``.
        factor: What a step multiplies the rate by.
    """
    length = max(round(every * num_updates), 1)
    places = [round(share * num_updates) for share in at]

    def scale(update: int) -> float:
        steps = sum(update >= place for place in places) if places else update // length
        return float(factor**steps)

    return optim.lr_scheduler.LambdaLR(optimizer, scale)


def read_milestones(words: str) -> list[int]:
    """Read the epochs after which the rate steps.

    Example:
        >>> read_milestones("100,150")
        [100, 150]
    """
    parts = [part.strip() for part in words.split(",")]
    epochs = [int(part) for part in parts if part.isdecimal()]
    if len(epochs) < len(parts) or epochs[0] < 1 or epochs != sorted(set(epochs)):
        raise InvalidSettingError(
            f"Expected `milestones` to be growing numbers of epochs with commas, from 1, but got "
            f"{words!r}. Write them as in 100,150 (--milestones)."
        )
    return epochs


SCHEDULERS: Registry[optim.lr_scheduler.LRScheduler] = Registry(
    "scheduler", {"constant": constant, "cosine": cosine, "step": step}
)
