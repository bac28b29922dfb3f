"""How soon does the model lose the label, if the most important pixels go first?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, final

from rightreasons.metrics.attribution_choice import Explainers, attributions
from rightreasons.metrics.metric import Rows
from rightreasons.metrics.reconstruction import RATIOS, Reconstruction
from rightreasons.probe import Probe

__all__ = ["Deletion"]


@final
class Deletion(Reconstruction):
    r"""Deletion: the label's probability as the most important pixels go.

    `Insertion` from the other end: :math:`p_y` of the sample without the share :math:`\gamma` of
    its pixels with the largest attribution. Low is good: what mattered went first. ``deletion`` is
    that of the first explainer, ``EXPLAINER`` of each, ``EXPLAINER/GAMMA`` the curve.

    Args:
        explainers: See `ExplanationMetric`.
        ratios: See `Reconstruction`.
        baseline: See `Reconstruction`.
        sign: See `Reconstruction`.

    References:
        petsiuk2018rise
    """

    name = "deletion"
    higher_is_better = False

    def __init__(
        self,
        *,
        explainers: Explainers = "input_gradient",
        ratios: float | Sequence[float] = RATIOS,
        baseline: float | Sequence[float] = 0.0,
        sign: Literal["absolute", "positive", "signed"] = "absolute",
    ) -> None:
        super().__init__(explainers=explainers, ratios=ratios, baseline=baseline, sign=sign)

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        x = self.checked(probe)
        found = attributions(self._chosen, probe.model, x, probe.batch.y)
        return {name: self.curve(probe, h, deletes=True) for name, h in found.items()}

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        return self.curve_summary(rows)
