"""How far do input gradients move under noise?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from rightreasons.explainers import InputGradient
from rightreasons.metrics.metric import Rows
from rightreasons.metrics.noise_metric import DEVIATIONS, NoiseMetric
from rightreasons.probe import Probe
from rightreasons.target import Target

__all__ = ["GradientRobustness"]


@final
class GradientRobustness(NoiseMetric):
    r"""Relative gradient robustness: how far noise moves the input gradient.

    .. math:: \frac{\lVert \nabla t(x + \delta) - \nabla t(x) \rVert_2}{\lVert \nabla t(x)
        \rVert_2}, \quad \delta \sim \mathcal N(0, \sigma^2 I)

    averaged over draws and samples whose gradient is not zero; 0 is a linear model.
    ``gradient_robustness`` is the mean over the deviations, ``gradient_robustness/SIGMA`` the
    value at each of them, to four digits, and ``n`` the number of samples.

    Differs from the paper: it does not say which logit :math:`f` is; here it is the label's. Its
    noise is Gaussian in the text, as here, and uniform in a caption.

    Args:
        deviations: See `NoiseMetric`.
        num_draws: See `NoiseMetric`.
        target: What is differentiated.
        seed: See `NoiseMetric`.

    References:
        yang2024regulating
    """

    name = "gradient_robustness"

    def __init__(
        self,
        *,
        deviations: float | Sequence[float] = DEVIATIONS,
        num_draws: int = 5,
        target: Target | str = Target.LOGIT,
        seed: int = 0,
    ) -> None:
        super().__init__(deviations=deviations, num_draws=num_draws, seed=seed)
        self.target = Target(target)

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        y, gradient_of = probe.batch.y, InputGradient(target=self.target)
        own = gradient_of(probe.model, probe.features.detach(), y).double().flatten(1)
        size = own.norm(dim=1)

        def distance(moved: Tensor, samples: Tensor) -> Tensor:
            other = gradient_of(probe.model, moved, y[samples]).double().flatten(1)
            gap: Tensor = (other - own[samples]).norm(dim=1)
            return gap / torch.where(size == 0, 1, size)[samples]

        return {"distance": self.under_noise(probe, distance), "counts": size != 0}

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        counts = rows["counts"]
        if not bool(counts.any()):
            return {"n": 0.0}
        return {**self.curve(rows["distance"][counts]), "n": float(counts.sum())}
