"""How much of the explanation leaks into what must not matter."""

from __future__ import annotations

from typing import Literal, final

import torch

from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.explainers import IntegratedGradients
from rightreasons.metrics.metric import Metric, Rows, bootstrap_means, percentile_interval
from rightreasons.probe.probe import Probe
from rightreasons.types import Target

__all__ = ["FeatureLeakage"]

MOST_ROWS = 256


@final
class FeatureLeakage(Metric):
    r"""Feature leakage: the length of Integrated Gradients inside the mask.

    .. math:: \frac1N \sum_x \Bigl\lVert m \odot (x - b) \odot
        \int_0^1 \nabla t(b + \alpha (x - b)) \, d\alpha \Bigr\rVert_2

    over samples whose mask is not empty. It has the unit of the target, so it shrinks with a model
    whose logits shrink; ``share`` does not.

    ==================== ==================================================================
    ``feature_leakage``  mean length
    ``low``, ``high``    its 95 % bootstrap interval over samples
    ``share``            mean share of the absolute attribution that lies inside the mask;
                         0 for samples without any attribution
    ``n``                number of samples
    ==================== ==================================================================

    Differs from the paper: equation 9 writes the path of the null block alone; here the whole
    sample is led from the baseline, as for the maps the paper shows.

    Args:
        num_steps: Of the integral.
        baseline: Where the path begins: one number for all features.
        quadrature: ``"gauss_legendre"`` or ``"trapezoid"``.
        target: What is attributed.

    References:
        yang2024regulating, sundararajan2017axiomatic
    """

    name = "feature_leakage"
    higher_is_better = False

    def __init__(
        self,
        *,
        num_steps: int = 20,
        baseline: float = 0.0,
        quadrature: Literal["gauss_legendre", "trapezoid"] = "gauss_legendre",
        target: Target | str = Target.LOGIT,
    ) -> None:
        super().__init__()
        self.num_steps = num_steps
        self.baseline = baseline
        self.quadrature = quadrature
        self.target = Target(target)
        self._explainer(MOST_ROWS)  # checks the settings

    def prepare(self, data: Dataset) -> None:
        """Refuse data without masks."""
        if not data.has_masks:
            raise InvalidBatchError("Expected data with masks for FeatureLeakage, but got none.")

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        explain = self._explainer(probe.max_rows or MOST_ROWS)
        attribution = explain(probe.model, probe.features.detach(), probe.batch.y).double()
        mask = probe.mask.expand_as(attribution).double()
        inside = (mask * attribution).flatten(1)
        total = attribution.abs().flatten(1).sum(dim=1)
        return {
            "length": inside.square().sum(dim=1).sqrt(),
            "share": inside.abs().sum(dim=1) / torch.where(total == 0, 1, total),
            "counts": mask.flatten(1).any(dim=1),
        }

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        counts = rows["counts"]
        if not bool(counts.any()):
            return {"n": 0.0}
        length, share = rows["length"][counts], rows["share"][counts]
        low, high = percentile_interval(bootstrap_means(length.numpy()))
        ends = {"low": low, "high": high}
        n = float(counts.sum())
        return {"": float(length.mean()), **ends, "share": float(share.mean()), "n": n}

    def _explainer(self, max_rows: int) -> IntegratedGradients:
        return IntegratedGradients(
            baseline=self.baseline,
            num_steps=self.num_steps,
            quadrature=self.quadrature,
            max_rows=max_rows,
            target=self.target,
        )
