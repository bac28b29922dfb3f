"""Feature leakage: Integrated Gradients of the masked features."""

from __future__ import annotations

from typing import Literal, final

import torch
from typing_extensions import override

from rightreasons.datasets.dataset import Dataset
from rightreasons.explainers import IntegratedGradients
from rightreasons.metrics.metric import (
    Metric,
    Rows,
    bootstrap_means,
    percentile_interval,
    refuse_without_masks,
)
from rightreasons.probe.probe import Probe
from rightreasons.types import Target

__all__ = ["FeatureLeakage"]


@final
class FeatureLeakage(Metric):
    r"""Feature leakage: the length of Integrated Gradients inside the mask.

    .. math:: \frac1N \sum_x \Bigl\lVert m \odot (x - b) \odot
        \int_0^1 \nabla t(b + \alpha (x - b)) \, d\alpha \Bigr\rVert_2

    over samples whose mask is not empty. It has the unit of the target: a model with
    smaller logits has less of it. ``share`` does not depend on the scale.

    ==================== ==================================================================
    ``feature_leakage``  mean length
    ``low``, ``high``    its 95 % bootstrap interval over samples
    ``share``            mean fraction of the absolute attribution inside the mask; 0 for
                         samples without any attribution
    ``n``                number of samples
    ==================== ==================================================================

    Differs from the paper: equation 9 writes the path of the null block alone; here the
    path of the whole sample is used, as for the maps the paper shows.

    Args:
        num_steps: Number of points of the integral.
        baseline: Start of the path: one number for all features.
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
        self._explainer(None)  # checks the settings

    def prepare(self, data: Dataset) -> None:
        """Refuse data without masks."""
        refuse_without_masks(self, data)

    @override
    def measure(self, probe: Probe) -> Rows:
        explainer = self._explainer(probe.max_rows)
        attribution = explainer(probe.model, probe.features.detach(), probe.batch.y).double()
        mask = probe.mask.expand_as(attribution).double()
        inside = (mask * attribution).flatten(1)
        total = attribution.abs().flatten(1).sum(dim=1)
        return {
            "length": inside.square().sum(dim=1).sqrt(),
            "share": inside.abs().sum(dim=1) / torch.where(total == 0, 1, total),
            "counts": mask.flatten(1).any(dim=1),
        }

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        counts = rows["counts"]
        if not bool(counts.any()):
            return {"n": 0.0}
        length, fraction = rows["length"][counts], rows["share"][counts]
        low, high = percentile_interval(bootstrap_means(length.numpy()))
        return {
            "": float(length.mean()),
            "low": low,
            "high": high,
            "share": float(fraction.mean()),
            "n": float(counts.sum()),
        }

    def _explainer(self, max_rows: int | None) -> IntegratedGradients:
        return IntegratedGradients(
            baseline=self.baseline,
            num_steps=self.num_steps,
            quadrature=self.quadrature,
            max_rows=max_rows,
            target=self.target,
        )
