"""How soon does the model see the label again, if the most important pixels come first?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, final

from rightreasons.metrics.attribution_choice import Explainers, attributions
from rightreasons.metrics.metric import Rows
from rightreasons.metrics.reconstruction import RATIOS, Reconstruction
from rightreasons.probe import Probe

__all__ = ["Insertion"]


@final
class Insertion(Reconstruction):
    r"""Insertion: the label's probability as the most important pixels come in.

    .. math:: \frac1N \sum_{(x, y)} p_y(x \odot m_\gamma + x_o \odot (1 - m_\gamma))

    where :math:`m_\gamma` holds the share :math:`\gamma` of the pixels with the largest
    attribution of :math:`y` and :math:`x_o` is an empty image; then the mean over :math:`\gamma`.
    ``insertion`` is that of the first explainer, ``EXPLAINER`` of each, ``EXPLAINER/GAMMA`` the
    curve.

    Differs from the paper: exactly :math:`\gamma` of the pixels, ties in reading order. As in its
    code, :math:`\gamma = 1`, where no order counts, is left out.

    Args:
        explainers: See `ExplanationMetric`.
        ratios: See `Reconstruction`.
        baseline: See `Reconstruction`.
        sign: See `Reconstruction`.

    References:
        petsiuk2018rise, joo2023towards
    """

    name = "insertion"
    higher_is_better = True

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
        return {name: self.curve(probe, attribution) for name, attribution in found.items()}

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        return self.curve_summary(rows)
