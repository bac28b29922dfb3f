"""Relative core sensitivity: noise on the masked features against noise elsewhere."""

from __future__ import annotations

from typing_extensions import override

from rightreasons.core.checks import check_integer, check_within, positive_float
from rightreasons.core.rng import sample_noise
from rightreasons.datasets.dataset import Dataset
from rightreasons.metrics.metric import Metric, Rows, check_prepared, refuse_without_masks
from rightreasons.probe.probe import Probe

__all__ = ["RelativeCoreSensitivity"]


class RelativeCoreSensitivity(Metric):
    r"""RCS: accuracy under noise on masked features against that under noise elsewhere.

    .. math:: \frac{a_\text{masked} - a_\text{core}}{2 \min(a, 1 - a)}
        \quad\text{with}\quad a = \frac{a_\text{masked} + a_\text{core}}2

    -1: the model uses the masked features alone. 1: it uses the others alone. 0 if both accuracies
    are 0 or both are 1, where noise shows nothing. The noise is the same in both, times :math:`m`
    and times :math:`1 - m`. ``masked_noisy`` and ``core_noisy`` are the two accuracies over draws
    and samples with a mask, and ``n`` is the number of such samples. Larger regions get more
    noise, so compare models on the same data only.

    Differs from the paper: the noise's width is a fraction of the data's valid range. On inputs
    from 0 to 255, noise of a fixed width 2 is invisible, and the score is only the difference of
    two clean accuracies.

    Args:
        noise: Standard deviation, as a fraction of the width of the data's valid range.
        num_draws: Number of noise draws for each sample.
        seed: Random seed for the draws, which depend on it and the sample, never on the batch.

    References:
        singla2022core
    """

    name = "relative_core_sensitivity"
    higher_is_better = True

    def __init__(self, *, noise: float = 0.25, num_draws: int = 5, seed: int = 0) -> None:
        super().__init__()
        self.noise = positive_float("noise", noise)
        self.num_draws = check_integer("num_draws", num_draws)
        self.seed = check_integer("seed", seed, low=0)
        self._valid_range: tuple[float, float] | None = None

    def prepare(self, data: Dataset) -> None:
        """Take the valid range from the card; refuse data without masks."""
        refuse_without_masks(self, data)
        self._valid_range = data.card.valid_range

    @override
    def measure(self, probe: Probe) -> Rows:
        (low, high), index = check_prepared(self, self._valid_range, probe.batch.index)
        x, mask = probe.features.detach(), probe.mask
        check_within(x, (low, high))
        noise = sample_noise(
            index, x.shape[1:], num_draws=self.num_draws, seed=self.seed, kind="normal"
        )
        noise = self.noise * (high - low) * noise.to(x)
        rows = {"counts": mask.flatten(1).any(dim=1)}
        for region, where in (("masked", mask), ("core", 1 - mask)):
            rows[region] = probe.each_at(
                x + noise * where,
                lambda at: at.logits.argmax(1) == at.batch.y,
                needs_gradient=False,
            ).T
        return rows

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        counts = rows["counts"]
        if not bool(counts.any()):
            return {"n": 0.0}
        masked, core = (float(rows[name][counts].double().mean()) for name in ("masked", "core"))
        mean = (masked + core) / 2
        largest_gap = 2 * min(mean, 1 - mean)
        return {
            "": (masked - core) / largest_gap if largest_gap > 0 else 0.0,
            "masked_noisy": masked,
            "core_noisy": core,
            "n": float(counts.sum()),
        }
