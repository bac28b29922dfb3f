"""Change of the input gradient and of the implied density under noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor

from rightreasons.core.checks import check_floats, check_integer, positive_float
from rightreasons.core.rng import sample_noise
from rightreasons.errors import InvalidBatchError
from rightreasons.explainers import InputGradient
from rightreasons.explainers.gradients import stacked_rows
from rightreasons.metrics.metric import Metric, Rows
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch, Target

__all__ = ["DEVIATIONS", "DensityRobustness", "GradientRobustness", "NoiseMetric"]

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
        widths = check_floats("deviations", deviations)
        self.deviations = sorted(positive_float("deviations", one) for one in widths)
        self.num_draws = check_integer("num_draws", num_draws)
        self.seed = check_integer("seed", seed, low=0)

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
