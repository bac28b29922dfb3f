"""How far does the density that a classifier implies move under noise?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from rightreasons.metrics.metric import Rows
from rightreasons.metrics.noise_metric import DEVIATIONS, NoiseMetric
from rightreasons.probe import Probe
from rightreasons.types import Batch

__all__ = ["DensityRobustness"]


@final
class DensityRobustness(NoiseMetric):
    r"""Density robustness: how far noise moves the density a classifier implies.

    .. math:: \sum_{i=1}^K e^{f_i(x + \delta) - f_i(x)}, \quad \delta \sim \mathcal N(0, \sigma^2 I)

    averaged over draws and samples. A model that noise does not move has K, the number of classes.
    A sum of exponentials is ruled by the few samples that grow most, and is below K where all
    logits fall; so beside it stands the distance
    :math:`|\log p_\theta(x + \delta) - \log p_\theta(x)|` of log-densities,
    :math:`\log p_\theta(x) = \log \sum_i e^{f_i(x)} + \text{const}`, which is 0 if nothing moves.

    ======================= ===========================================================
    ``density_robustness``  the sum, mean over the deviations
    ``SIGMA``               at one deviation, to four digits
    ``log``, ``log/SIGMA``  the distance of log-densities, likewise
    ======================= ===========================================================

    Args:
        deviations: See `NoiseMetric`.
        num_draws: See `NoiseMetric`.
        seed: See `NoiseMetric`.

    References:
        yang2024regulating
    """

    name = "density_robustness"

    def __init__(
        self, *, deviations: float | Sequence[float] = DEVIATIONS, num_draws: int = 5, seed: int = 0
    ) -> None:
        super().__init__(deviations=deviations, num_draws=num_draws, seed=seed)

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        y, own = probe.batch.y, probe.logits.detach().double()
        density = own.logsumexp(dim=1)

        def moves(moved: Tensor, samples: Tensor) -> Tensor:
            with torch.no_grad():
                at = Probe.at_test_time(probe.model, Batch.trusted(x=moved, y=y[samples]))
            logits = at.logits.double()
            grown = (logits - own[samples]).exp().sum(dim=1)
            distance = (logits.logsumexp(dim=1) - density[samples]).abs()
            return torch.stack([grown, distance], dim=1)

        grown, distance = self.under_noise(probe, moves).unbind(dim=2)
        return {"grown": grown, "distance": distance}

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        return {**self.curve(rows["grown"]), **self.curve(rows["distance"], "log")}
