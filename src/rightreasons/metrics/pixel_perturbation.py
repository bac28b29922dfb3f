"""Change of the prediction without important pixels, against unimportant ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.explainers import postprocessed
from rightreasons.metrics.explanation_metric import Explainers
from rightreasons.metrics.insertion import (
    ReconstructionMetric,
    Sign,
    importance_ranks,
    reconstruction_curve,
)
from rightreasons.metrics.metric import Rows
from rightreasons.probe.probe import Probe

__all__ = ["PixelPerturbation"]

FRACTIONS = tuple(step / 10 for step in range(1, 10))


@final
class PixelPerturbation(ReconstructionMetric):
    r"""Pixel perturbation: the change without the top pixels less that without the bottom ones.

    .. math:: \frac1N \sum_x \left( \frac{|f_c(x) - f_c(x_{-\text{top } k})|}{|f_c(x)|} -
        \frac{|f_c(x) - f_c(x_{-\text{bottom } k})|}{|f_c(x)|} \right)

    where :math:`c` is the predicted class. A fraction :math:`k` of the pixels, those with the
    largest or smallest attribution of :math:`c`, takes the baseline's value. Samples whose logit
    is 0 do not count, since nothing can be divided by it.

    ====================== ==================================================================
    ``pixel_perturbation`` the difference, mean over k, of the first explainer
    ``EXPLAINER``          the same, of each explainer; ``EXPLAINER/K`` at one k
    ``EXPLAINER/top``      the change without the top pixels alone, mean over k; likewise
                           ``EXPLAINER/bottom``
    ``n``                  number of samples
    ====================== ==================================================================

    A constant added to all logits does not change the softmax, but it changes this measure:
    compare models trained in the same way.

    Differs from the paper: it does not say which value pixels get; here it is a setting.

    Args:
        explainers: The explainers to measure, see `ExplanationMetric`; SmoothGrad in the paper.
        ratios: The fractions k.
        baseline: Value of a missing pixel, see `ReconstructionMetric`.
        sign: Which part of an attribution counts, see `ReconstructionMetric`.

    References:
        yang2024regulating, srinivas2021rethinking
    """

    name = "pixel_perturbation"
    higher_is_better = True

    def __init__(
        self,
        *,
        explainers: Explainers = "smooth_grad",
        ratios: float | Sequence[float] = FRACTIONS,
        baseline: float | Sequence[float] = 0.0,
        sign: Sign = "absolute",
    ) -> None:
        super().__init__(explainers=explainers, ratios=ratios, baseline=baseline, sign=sign)

    @override
    def measure(self, probe: Probe) -> Rows:
        logits, predicted = probe.logits.detach().double().max(dim=1)
        rows: Rows = {"counts": logits != 0}
        for name, attribution in self.explain(probe, predicted).items():
            ranks = importance_ranks(postprocessed(attribution, sign=self.sign))
            for end, order in (("top", ranks), ("bottom", ranks.shape[1] - 1 - ranks)):
                remaining = reconstruction_curve(
                    probe,
                    order,
                    y=predicted,
                    ratios=self.ratios,
                    baseline=self.blank(probe),
                    deletes=True,
                )
                rows[f"{name}/{end}"] = _relative_change(remaining, logits)
        return rows

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        counts = rows["counts"]
        if not bool(counts.any()):
            return {"n": 0.0}
        values: dict[str, float] = {}
        details: dict[str, float] = {}
        for name in self._by_name:
            ends = {end: rows[f"{name}/{end}"][counts].double() for end in ("top", "bottom")}
            curve = (ends["top"] - ends["bottom"]).mean(dim=0)
            values[name] = float(curve.mean())
            pairs = zip(self.ratios, curve.tolist(), strict=True)
            details |= {f"{name}/{ratio:g}": value for ratio, value in pairs}
            details |= {f"{name}/{end}": float(ends[end].mean()) for end in ends}
        return {**self.headline(values), **details, "n": float(counts.sum())}


def _relative_change(remaining: Tensor, logits: Tensor) -> Tensor:
    divisor = torch.where(logits == 0, 1, logits)[:, None]
    return ((remaining - logits[:, None]) / divisor).abs().float()
