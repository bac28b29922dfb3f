"""What metrics under noise of growing deviation share: the noise, and the curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rightreasons.errors import InvalidBatchError
from rightreasons.explainers.averaged_gradient import stacked_rows
from rightreasons.metrics.metric import Metric
from rightreasons.probe import Probe
from rightreasons.sample_noise import sample_noise
from rightreasons.setting import checked_factor, checked_number, checked_numbers

__all__ = ["DEVIATIONS", "NoiseMetric"]

DEVIATIONS = (0.05, 0.1, 0.15, 0.2, 0.25)
FINENESS = 1024
MOST_ROWS = 256


class NoiseMetric(Metric):
    """A metric of what Gaussian noise does to a model, at several deviations.

    All deviations share the draws, which depend on the seed and the sample, never on the batch.
    They are rounded to a 1024th of the deviation, so that sums of a few round features stay exact.
    Noise may leave the data's valid range: cut noise would not have the deviation it is said to
    have.

    Args:
        deviations: The standard deviation of the noise, in input units, or several in a list.
        num_draws: Of the noise, for each sample.
        seed: Of the draws.
    """

    higher_is_better = False

    def __init__(self, *, deviations: float | Sequence[float], num_draws: int, seed: int) -> None:
        super().__init__()
        widths = checked_numbers("deviations", deviations)
        self.deviations = sorted(checked_factor("deviations", one) for one in widths)
        self.num_draws = checked_number("num_draws", num_draws)
        self.seed = checked_number("seed", seed, low=0)

    def under_noise(self, probe: Probe, read: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """What ``read`` gives of noisy samples, mean over draws: ``(N, deviations, ...)``.

        Args:
            probe: Of samples with an ``index``; its `max_rows` is the ceiling.
            read: From noisy samples ``(R, *S)`` and the place of each in the batch, ``(R,)``, to
                ``(R, ...)``.
        """
        x, index = probe.features.detach(), probe.batch.index
        if index is None or not x.is_floating_point():
            raise InvalidBatchError(
                f"Expected batches of floating point `x` with an `index` for "
                f"{type(self).__name__}, so that what is drawn for a sample does not depend on its "
                "batch. evaluate() gives the index; token ids cannot be moved."
            )
        drawn = sample_noise(
            index, x.shape[1:], num_draws=self.num_draws, seed=self.seed, kind="normal"
        )
        noise = drawn.mul_(FINENESS).round_().div_(FINENESS).to(x)
        widths = torch.tensor(self.deviations, dtype=x.dtype, device=x.device)
        widths = widths.reshape(-1, *[1] * (x.ndim - 1))
        found = []
        num_copies = len(widths) * self.num_draws
        for copies, samples in stacked_rows(
            num_copies, len(x), probe.max_rows or MOST_ROWS, x.device
        ):
            width = widths[copies // self.num_draws]
            moved = x[samples] + width * noise[copies % self.num_draws, samples]
            found.append(read(moved, samples).double())
        values = torch.cat(found)
        shape = (len(widths), self.num_draws, len(x), *values.shape[1:])
        return values.reshape(shape).mean(dim=1).transpose(0, 1).float()

    def curve(self, values: Tensor, name: str = "") -> dict[str, float]:
        """Means over samples: over all deviations under ``name``, then at each of them.

        Args:
            values: ``(N, deviations)``.
            name: What they are; empty for the metric itself.
        """
        means = values.double().mean(dim=0).tolist()
        prefix = f"{name}/" if name else ""
        pairs = zip(self.deviations, means, strict=True)
        each = {f"{prefix}{deviation:.4g}": mean for deviation, mean in pairs}
        return {name: sum(means) / len(means), **each}
