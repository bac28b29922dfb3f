"""Random numbers that depend on a seed and on what they are for, and on nothing else."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from rightreasons.setting import checked_number

__all__ = ["drawn_from", "random_stream"]


def random_stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """Start the stream of a seed and a purpose.

    Streams of different purposes are independent: drawing the test colours is not disturbed by
    how many numbers the training corners took, nor by the global random state.

    Args:
        seed: From 0.
        purpose: Words and numbers, such as ``"decoy_digits", "train"`` or an epoch.

    Example:
        >>> first, again = random_stream(0, "train"), random_stream(0, "train")
        >>> bool(first.random() == again.random() != random_stream(0, "test").random())
        True
    """
    checked_number("seed", seed, low=0)
    digest = hashlib.sha256(repr((seed, *purpose)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))


@contextmanager
def drawn_from(seed: int, *purpose: int) -> Iterator[None]:
    """Let torch, NumPy and `random` draw from this seed inside, and as before afterwards."""
    torch_state, numpy_state, python_state = (
        torch.get_rng_state(),
        np.random.get_state(),
        random.getstate(),
    )
    number = int(np.random.SeedSequence([seed, *purpose]).generate_state(1)[0])
    torch.default_generator.manual_seed(number)
    np.random.seed(number)
    random.seed(number)
    try:
        yield
    finally:
        torch.set_rng_state(torch_state)
        np.random.set_state(numpy_state)
        random.setstate(python_state)
