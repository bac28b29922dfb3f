"""Random numbers that depend on a seed and on what they are for, and on nothing else."""

import hashlib

import numpy as np

from rightreasons.setting import checked_number

__all__ = ["random_stream"]


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
