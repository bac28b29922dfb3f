"""Noise that depends on a seed and on the sample, never on the batch it comes in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

__all__ = ["sample_noise"]


def sample_noise(
    index: Tensor,
    shape: Sequence[int],
    *,
    num_draws: int,
    seed: int,
    kind: Literal["uniform", "normal"] = "uniform",
) -> Tensor:
    """Draw for each sample from a stream of its own, started by the seed and its place.

    The global random state is neither used nor moved.

    Args:
        index: ``(N,)``, the place of each sample in its data set.
        shape: Of one draw.
        num_draws: How many for each sample.
        seed: Of all streams.
        kind: Uniform in [0, 1), or standard normal.

    Returns:
        ``(num_draws, N, *shape)``, single precision, on the device of ``index``.

    Example:
        >>> both = sample_noise(torch.tensor([7, 9]), (3,), num_draws=2, seed=0)
        >>> alone = sample_noise(torch.tensor([9]), (3,), num_draws=2, seed=0)
        >>> both.shape, torch.equal(both[:, 1:], alone)
        (torch.Size([2, 2, 3]), True)
    """
    draw = torch.rand if kind == "uniform" else torch.randn
    generator = torch.Generator()
    noise = torch.empty(len(index), num_draws, *shape)
    for row, place in enumerate(index.tolist()):
        generator.manual_seed(_start(seed, place))
        noise[row] = draw((num_draws, *shape), generator=generator)
    return noise.transpose(0, 1).to(index.device)


def _start(seed: int, place: int) -> int:
    """Scatter neighbouring seeds and places over 32 bits, of which a generator takes no more."""
    mixed = (seed * 0x9E3779B97F4A7C15 + place * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) % 2**64
    mixed = (mixed ^ (mixed >> 31)) * 0xD6E8FEB86659FD93 % 2**64
    return mixed >> 32
