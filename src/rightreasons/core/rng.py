"""Random numbers that depend on a seed and a sample's index, not on the batch."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from rightreasons.core.checks import check_integer

__all__ = ["drawn_from", "random_stream", "sample_noise"]


FEWEST_AT_ONCE = 500
"""Fewer samples take less time one by one."""
MOST_AT_ONCE = 16
"""Most numbers of a sample that are drawn for all samples side by side."""
_MIDDLE = 397  # the distance of the words that MT19937 combines


def random_stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """Create the random stream of a seed and a purpose.

    Streams of different purposes are independent: drawing the test colours is not disturbed by
    how many numbers the training corners took, nor by the global random state.

    Args:
        seed: A whole number from 0.
        purpose: Words and numbers that name the stream: ``"decoy_digits", "train"``, an epoch.

    Example:
        >>> first, again = random_stream(0, "train"), random_stream(0, "train")
        >>> bool(first.random() == again.random() != random_stream(0, "test").random())
        True
    """
    check_integer("seed", seed, low=0)
    digest = hashlib.sha256(repr((seed, *purpose)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))


@contextmanager
def drawn_from(seed: int, *purpose: int) -> Iterator[None]:
    """Seed torch, NumPy and `random` inside the context, and restore their states afterwards."""
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


def sample_noise(
    index: Tensor,
    shape: Sequence[int],
    *,
    num_draws: int,
    seed: int,
    kind: Literal["uniform", "normal"] = "uniform",
) -> Tensor:
    """Draw noise for each sample from a stream that its index and the seed start.

    The global random state is neither used nor changed.

    Args:
        index: ``(N,)``, the index of each sample in its data set.
        shape: Shape of one draw.
        num_draws: Number of draws for each sample.
        seed: Random seed for all streams.
        kind: Uniform in [0, 1), or standard normal.

    Returns:
        ``(num_draws, N, *shape)``, single precision, on the device of ``index``.

    Example:
        >>> both = sample_noise(torch.tensor([7, 9]), (3,), num_draws=2, seed=0)
        >>> alone = sample_noise(torch.tensor([9]), (3,), num_draws=2, seed=0)
        >>> both.shape, torch.equal(both[:, 1:], alone)
        (torch.Size([2, 2, 3]), True)
    """
    if kind == "uniform" and len(index) >= FEWEST_AT_ONCE:
        found = _few_uniform(index, num_draws * math.prod(shape), seed)
        if found is not None:
            drawn = found.view(len(index), num_draws, *shape)
            return drawn.transpose(0, 1).to(index.device)
    draw = Tensor.uniform_ if kind == "uniform" else Tensor.normal_
    generator = torch.Generator()
    noise = torch.empty(len(index), num_draws, *shape)
    for row, number in zip(noise.unbind(), index.tolist(), strict=True):
        generator.manual_seed(_mix(seed, number))
        draw(row, generator=generator)
    return noise.transpose(0, 1).to(index.device)


def _few_uniform(index: Tensor, count: int, seed: int) -> Tensor | None:
    """The first uniform numbers of all samples' streams, ``(N, count)``, bit for bit.

    PyTorch's generator on the CPU is the Mersenne Twister MT19937. Seeding it takes most of the
    time of a few draws. Here the first words of all streams are computed side by side.

    Returns:
        None where the first stream of PyTorch has other numbers, or where many are wanted.
    """
    if not 0 < count <= MOST_AT_ONCE:
        return None
    seeds = [_mix(seed, number) for number in index.tolist()]
    state = np.empty((_MIDDLE + count + 1, len(seeds)), dtype=np.uint32)
    state[0] = seeds
    for number in range(1, len(state)):
        before, word = state[number - 1], state[number]
        np.right_shift(before, 30, out=word)
        np.bitwise_xor(before, word, out=word)
        np.multiply(word, np.uint32(1812433253), out=word)
        np.add(word, np.uint32(number), out=word)
    joined = (state[:count] & np.uint32(0x80000000)) | (state[1 : count + 1] & np.uint32(2**31 - 1))
    twist = np.where(joined & np.uint32(1), np.uint32(0x9908B0DF), np.uint32(0))
    words: Any = state[_MIDDLE : _MIDDLE + count] ^ (joined >> np.uint32(1)) ^ twist
    words ^= words >> np.uint32(11)
    words ^= (words << np.uint32(7)) & np.uint32(0x9D2C5680)
    words ^= (words << np.uint32(15)) & np.uint32(0xEFC60000)
    words ^= words >> np.uint32(18)
    drawn = torch.from_numpy((words & np.uint32(2**24 - 1)).astype(np.float32).T / 2**24)
    expected = torch.empty(count).uniform_(generator=torch.Generator().manual_seed(seeds[0]))
    return drawn.contiguous() if torch.equal(drawn[0], expected) else None


def _mix(seed: int, index: int) -> int:
    """Scatter neighbouring seeds and indices over the 32 bits that a generator takes."""
    mixed = (seed * 0x9E3779B97F4A7C15 + index * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) % 2**64
    mixed = (mixed ^ (mixed >> 31)) * 0xD6E8FEB86659FD93 % 2**64
    return mixed >> 32
