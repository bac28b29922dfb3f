"""Change of the input gradient and of the implied density under noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

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
STEPS_PER_DEVIATION = 1024
MOST_ROWS = 256


class NoiseMetric(Metric):
    """A metric of a model's change under Gaussian noise, at several standard deviations.

    All deviations share the draws, which depend on the seed and the sample, never on the batch.
    They are rounded to a 1024th of the deviation, so that sums of a few round features stay exact.
    Noise may leave the data's valid range, since clipped noise has another deviation.

    Args:
        deviations: The standard deviation of the noise, in input units, or several in a list.
        num_draws: Number of noise draws for each sample.
        seed: Random seed for the draws.
    """

    higher_is_better = False

    def __init__(self, *, deviations: float | Sequence[float], num_draws: int, seed: int) -> None:
        super().__init__()
        widths = check_floats("deviations", deviations)
        self.deviations = sorted(positive_float("deviations", one) for one in widths)
        self.num_draws = check_integer("num_draws", num_draws)
        self.seed = check_integer("seed", seed, low=0)

    def mean_under_noise(self, probe: Probe, read: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The mean of ``read`` over noise draws, ``(N, deviations, ...)``.

        Args:
            probe: A pass over samples with an ``index``; its `rows_for` is the ceiling.
            read: Maps noisy samples ``(R, *S)`` and the row of each in the batch, ``(R,)``, to
                ``(R, ...)``.
        """
        x, index = probe.features.detach(), probe.batch.index
        if index is None or not x.is_floating_point():
            raise InvalidBatchError(
                f"Expected batches of floating point `x` with an `index` for "
                f"{type(self).__name__}, so that what is drawn for a sample does not depend on its "
                "batch. evaluate() gives the index; token ids cannot be moved."
            )
        noise = sample_noise(
            index, x.shape[1:], num_draws=self.num_draws, seed=self.seed, kind="normal"
        )
        noise = noise.mul_(STEPS_PER_DEVIATION).round_().div_(STEPS_PER_DEVIATION).to(x)
        widths = torch.tensor(self.deviations, dtype=x.dtype, device=x.device)
        widths = widths.reshape(-1, *[1] * (x.ndim - 1))
        results = []
        num_copies = len(widths) * self.num_draws
        most = probe.rows_for("gradients", MOST_ROWS)
        for copies, samples in stacked_rows(num_copies, len(x), most, x.device):
            width = widths[copies // self.num_draws]
            noisy = x[samples] + width * noise[copies % self.num_draws, samples]
            results.append(read(noisy, samples).double())
        values = torch.cat(results)
        shape = (len(widths), self.num_draws, len(x), *values.shape[1:])
        return values.reshape(shape).mean(dim=1).transpose(0, 1).float()

    def curve(self, values: Tensor, name: str = "") -> dict[str, float]:
        """Means over samples: over all deviations under ``name``, then at each of them.

        Args:
            values: ``(N, deviations)``.
            name: Their name; empty for the metric itself.
        """
        means = values.double().mean(dim=0).tolist()
        prefix = f"{name}/" if name else ""
        pairs = zip(self.deviations, means, strict=True)
        each = {f"{prefix}{deviation:.4g}": mean for deviation, mean in pairs}
        return {name: sum(means) / len(means), **each}


@final
class DensityRobustness(NoiseMetric):
    r"""Density robustness: the change of the density that a classifier implies, under noise.

    .. math:: \sum_{i=1}^K e^{f_i(x + \delta) - f_i(x)}, \quad \delta \sim \mathcal N(0, \sigma^2 I)

    averaged over draws and samples. A model that noise does not change has K, the number of
    classes. The few samples that grow most dominate a sum of exponentials, and it is below K where
    all logits fall. The distance :math:`|\log p_\theta(x + \delta) - \log p_\theta(x)|` of
    log-densities is therefore given too, with
    :math:`\log p_\theta(x) = \log \sum_i e^{f_i(x)} + \text{const}`; it is 0 without a change.

    ======================= ===========================================================
    ``density_robustness``  the sum, mean over the deviations
    ``SIGMA``               at one deviation, to four digits
    ``log``, ``log/SIGMA``  the distance of log-densities, likewise
    ======================= ===========================================================

    Args:
        deviations: The standard deviation of the noise, in input units, or several in a list.
        num_draws: Number of noise draws for each sample.
        seed: Random seed for the draws.

    References:
        yang2024regulating
    """

    name = "density_robustness"

    def __init__(
        self, *, deviations: float | Sequence[float] = DEVIATIONS, num_draws: int = 5, seed: int = 0
    ) -> None:
        super().__init__(deviations=deviations, num_draws=num_draws, seed=seed)

    @override
    def measure(self, probe: Probe) -> Rows:
        y, clean = probe.batch.y, probe.logits.detach().double()
        density = clean.logsumexp(dim=1)

        def changes(noisy: Tensor, samples: Tensor) -> Tensor:
            with torch.no_grad():
                at = Probe.at_test_time(probe.model, Batch.trusted(x=noisy, y=y[samples]))
            logits = at.logits.double()
            grown = (logits - clean[samples]).exp().sum(dim=1)
            distance = (logits.logsumexp(dim=1) - density[samples]).abs()
            return torch.stack([grown, distance], dim=1)

        grown, distance = self.mean_under_noise(probe, changes).unbind(dim=2)
        return {"grown": grown, "distance": distance}

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        return {**self.curve(rows["grown"]), **self.curve(rows["distance"], "log")}


@final
class GradientRobustness(NoiseMetric):
    r"""Relative gradient robustness: the change of the input gradient under noise.

    .. math:: \frac{\lVert \nabla t(x + \delta) - \nabla t(x) \rVert_2}{\lVert \nabla t(x)
        \rVert_2}, \quad \delta \sim \mathcal N(0, \sigma^2 I)

    averaged over draws and samples whose gradient is not zero. A linear model has 0.
    ``gradient_robustness`` is the mean over the deviations, ``gradient_robustness/SIGMA`` the
    value at each of them, to four digits, and ``n`` the number of samples.

    Differs from the paper: it does not say which logit :math:`f` is; here it is the label's. Its
    noise is Gaussian in the text, as here, and uniform in a caption.

    Args:
        deviations: The standard deviation of the noise, in input units, or several in a list.
        num_draws: Number of noise draws for each sample.
        target: What is differentiated.
        seed: Random seed for the draws.

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

    @override
    def measure(self, probe: Probe) -> Rows:
        y, gradient_of = probe.batch.y, InputGradient(target=self.target)
        clean = gradient_of(probe.model, probe.features.detach(), y).double().flatten(1)
        size = clean.norm(dim=1)

        def distance(noisy: Tensor, samples: Tensor) -> Tensor:
            gradient = gradient_of(probe.model, noisy, y[samples]).double().flatten(1)
            change: Tensor = (gradient - clean[samples]).norm(dim=1)
            return change / torch.where(size == 0, 1, size)[samples]

        return {"distance": self.mean_under_noise(probe, distance), "counts": size != 0}

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        counts = rows["counts"]
        if not bool(counts.any()):
            return {"n": 0.0}
        return {**self.curve(rows["distance"][counts]), "n": float(counts.sum())}
