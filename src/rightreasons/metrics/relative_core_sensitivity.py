"""Does noise where the model must not look harm it less than noise elsewhere?"""

from __future__ import annotations

from rightreasons.core.checks import check_integer, positive_float
from rightreasons.core.rng import sample_noise
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.metrics.metric import Metric, Rows
from rightreasons.probe.probe import Probe

__all__ = ["RelativeCoreSensitivity"]


class RelativeCoreSensitivity(Metric):
    r"""RCS: the accuracy under masked noise against that under noise elsewhere.

    .. math:: \frac{a_\text{masked} - a_\text{core}}{2 \min(a, 1 - a)}
        \quad\text{with}\quad a = \frac{a_\text{masked} + a_\text{core}}2

    From -1, the model reads the masked features alone, to 1, it reads the others alone; 0 if both
    accuracies are 0 or both are 1, when noise tells nothing. The noise is the same in both, times
    :math:`m` and times :math:`1 - m`. Beside it stand ``masked_noisy`` and ``core_noisy``, the two
    accuracies over samples with a mask and draws, and ``n``, the number of such samples. Larger
    regions take more noise, so compare models on the same data only.

    Differs from the paper: the noise is as wide as a share of the data's valid range. On inputs
    from 0 to 255 noise of a fixed width 2 is invisible, and the score nothing but the difference
    of two clean accuracies.

    Args:
        noise: Standard deviation, as a share of the width of the data's valid range.
        num_draws: How often noise is drawn for each sample.
        seed: Of the draws, which depend on it and on the sample, never on the batch.

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
        if not data.has_masks:
            raise InvalidBatchError(
                "Expected data with masks for RelativeCoreSensitivity, but got none."
            )
        self._valid_range = data.card.valid_range

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        index = probe.batch.index
        if self._valid_range is None or index is None:
            raise InvalidBatchError(
                "Expected RelativeCoreSensitivity.prepare(data) before the first batch, and "
                "batches with an `index`. evaluate() does both."
            )
        low, high = self._valid_range
        x, mask = probe.features.detach(), probe.mask
        drawn = sample_noise(
            index, x.shape[1:], num_draws=self.num_draws, seed=self.seed, kind="normal"
        )
        noise = self.noise * (high - low) * drawn.to(x)
        rows = {"counts": mask.flatten(1).any(dim=1)}
        for region, where in (("masked", mask), ("core", 1 - mask)):
            right = probe.each_at(x + noise * where, lambda at: at.logits.argmax(1) == at.batch.y)
            rows[region] = right.T
        return rows

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        counts = rows["counts"]
        if not bool(counts.any()):
            return {"n": 0.0}
        masked, core = (float(rows[name][counts].double().mean()) for name in ("masked", "core"))
        mean = (masked + core) / 2
        room = 2 * min(mean, 1 - mean)
        return {
            "": (masked - core) / room if room > 0 else 0.0,
            "masked_noisy": masked,
            "core_noisy": core,
            "n": float(counts.sum()),
        }
