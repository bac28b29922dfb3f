"""Where searches through a box begin: points drawn for each sample, whatever its batch."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.errors import InvalidBatchError
from rightreasons.probe import Probe
from rightreasons.sample_noise import sample_noise
from rightreasons.types import Interval

__all__ = ["start_points"]


def start_points(probe: Probe, interval: Interval, *, num_points: int, seed: int) -> Tensor:
    """Points drawn uniformly from a box inside the masks, ``(num_points, N, M)``.

    They depend on the seed and the sample, never on the batch.

    Args:
        probe: Of samples with an ``index``.
        interval: A box of `Inside`, ``(N, M)``.
        num_points: How many for each sample.
        seed: Of the draws.
    """
    index, shape = probe.batch.index, probe.features.shape[1:]
    if index is None:
        raise InvalidBatchError(
            "Expected batches with an `index`, so that what is drawn for a sample does not depend "
            "on its batch, but got one without. evaluate() takes care of it."
        )
    lower, upper = interval
    drawn = sample_noise(index, (shape.numel(),), num_draws=num_points, seed=seed)
    noise = drawn.to(lower)[..., probe.inside.columns]
    return torch.lerp(lower, upper, noise).clamp(lower, upper)
