"""Does the model miss important pixels more than unimportant ones?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, final

import torch
from torch import Tensor

from rightreasons.explainers import postprocessed
from rightreasons.metrics.explanation_metric import Explainers, attributions
from rightreasons.metrics.insertion import Reconstruction, importance_ranks, rebuilt
from rightreasons.metrics.metric import Rows
from rightreasons.probe.probe import Probe

__all__ = ["PixelPerturbation"]

SHARES = tuple(step / 10 for step in range(1, 10))


@final
class PixelPerturbation(Reconstruction):
    r"""Pixel perturbation: the most important pixels are missed, the least are not.

    .. math:: \frac1N \sum_x \left( \frac{|f_c(x) - f_c(x_{-\text{top } k})|}{|f_c(x)|} -
        \frac{|f_c(x) - f_c(x_{-\text{bottom } k})|}{|f_c(x)|} \right)

    where :math:`c` is the predicted class and the share :math:`k` of the pixels with the largest,
    or smallest, attribution of :math:`c` took the baseline's value. Logits of 0 have no fraction:
    their samples do not count.

    ====================== ==================================================================
    ``pixel_perturbation`` the difference, mean over k, of the first explainer
    ``EXPLAINER``          the same, of each explainer; ``EXPLAINER/K`` at one k
    ``EXPLAINER/top``      the change without the top pixels alone, mean over k; likewise
                           ``EXPLAINER/bottom``
    ``n``                  number of samples
    ====================== ==================================================================

    A softmax does not mind a constant added to all logits, but this measure does: compare models
    trained in the same way.

    Differs from the paper: it does not say what pixels become; here it is a setting.

    Args:
        explainers: See `ExplanationMetric`; SmoothGrad in the paper.
        ratios: The shares k.
        baseline: See `Reconstruction`.
        sign: See `Reconstruction`.

    References:
        yang2024regulating, srinivas2021rethinking
    """

    name = "pixel_perturbation"
    higher_is_better = True

    def __init__(
        self,
        *,
        explainers: Explainers = "smooth_grad",
        ratios: float | Sequence[float] = SHARES,
        baseline: float | Sequence[float] = 0.0,
        sign: Literal["absolute", "positive", "signed"] = "absolute",
    ) -> None:
        super().__init__(explainers=explainers, ratios=ratios, baseline=baseline, sign=sign)

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        x = self.checked(probe)
        logits, predicted = probe.logits.detach().double().max(dim=1)
        rows: Rows = {"counts": logits != 0}
        for name, found in attributions(self._chosen, probe.model, x, predicted).items():
            ranks = importance_ranks(postprocessed(found, sign=self.sign))
            for end, order in (("top", ranks), ("bottom", ranks.shape[1] - 1 - ranks)):
                left = rebuilt(
                    probe,
                    order,
                    y=predicted,
                    ratios=self.ratios,
                    baseline=self.blank(probe),
                    deletes=True,
                )
                rows[f"{name}/{end}"] = _fraction(left, logits)
        return rows

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        counts = rows["counts"]
        if not bool(counts.any()):
            return {"n": 0.0}
        values: dict[str, float] = {}
        details: dict[str, float] = {}
        for name in self._chosen:
            ends = {end: rows[f"{name}/{end}"][counts].double() for end in ("top", "bottom")}
            curve = (ends["top"] - ends["bottom"]).mean(dim=0)
            values[name] = float(curve.mean())
            pairs = zip(self.ratios, curve.tolist(), strict=True)
            details |= {f"{name}/{ratio:g}": value for ratio, value in pairs}
            details |= {f"{name}/{end}": float(ends[end].mean()) for end in ends}
        return {**self.headline(values), **details, "n": float(counts.sum())}


def _fraction(left: Tensor, logits: Tensor) -> Tensor:
    whole = torch.where(logits == 0, 1, logits)[:, None]
    return ((left - logits[:, None]) / whole).abs().float()
