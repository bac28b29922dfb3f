"""Integrated Gradients: gradients summed on the line from a baseline to the sample."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal, final
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.core.checks import check_choice, check_integer
from rightreasons.errors import InvalidSettingError
from rightreasons.explainers.explainer import Explainer
from rightreasons.explainers.gradients import averaged_gradient
from rightreasons.explainers.subject import Subject
from rightreasons.types import Target

__all__ = ["Baseline", "IntegratedGradients"]

Baseline = float | Tensor | Callable[[Tensor], Tensor]
"""A number, a tensor that broadcasts to the features, or a function of the features."""

logger = logging.getLogger("rightreasons")

MOST_MISSED = 0.5
"""The share of a change of the target that a sum may miss before a warning."""
_warned: WeakSet[nn.Module] = WeakSet()
_QUADRATURES = ("gauss_legendre", "trapezoid")


@final
class IntegratedGradients(Explainer):
    r"""Integrated Gradients: gradients summed on the line from a baseline to the sample.

    .. math:: h(x) = (x - b) \odot \int_0^1 \nabla t(b + \alpha (x - b)) \, d\alpha

    Attributions are complete: they sum to :math:`t(x) - t(b)`, up to the error of the quadrature,
    which `completeness_gap` reports. The kinks of a ReLU net lower the order of both quadratures.
    Trained transformers may jump on the line: a warning, one for a model, says if the sums miss
    more than half of the change.

    Differs from the paper: Gauss-Legendre quadrature needs fewer steps than the paper's Riemann
    sum. ``"trapezoid"`` is close to the paper's.

    Args:
        baseline: An input without content: a number for all features, a tensor that broadcasts to
            ``x``, or a function of ``x`` such as a blur. For token ids, a baseline of embeddings.
        num_steps: Number of gradients per sample; 20 to 300 in the paper.
        quadrature: ``"gauss_legendre"`` or ``"trapezoid"``.
        max_rows: The most rows in one stacked pass; None fits a memory budget, 256 at most.
        target: The number of the prediction that is explained.

    Example:
        >>> model = nn.Linear(3, 2)
        >>> x, y = torch.rand(1, 3), torch.tensor([1])
        >>> explain = IntegratedGradients(num_steps=2)
        >>> explain(model, x, y).shape, bool(explain.completeness_gap(model, x, y).abs() < 1e-5)
        (torch.Size([1, 3]), True)

    References:
        sundararajan2017axiomatic
    """

    def __init__(
        self,
        *,
        baseline: Baseline = 0.0,
        num_steps: int = 50,
        quadrature: Literal["gauss_legendre", "trapezoid"] = "gauss_legendre",
        max_rows: int | None = None,
        target: Target | str = Target.LOGIT,
    ) -> None:
        super().__init__(target=target)
        if not isinstance(baseline, int | float | Tensor) and not callable(baseline):
            raise InvalidSettingError(
                "Expected `baseline` to be a number, a tensor or a function of `x`, but got "
                f"{baseline!r}."
            )
        self.baseline = baseline
        self.quadrature = check_choice("quadrature", quadrature, _QUADRATURES)
        self.num_steps = check_integer(
            "num_steps", num_steps, low=2 if quadrature == "trapezoid" else 1
        )
        self.max_rows = None if max_rows is None else check_integer("max_rows", max_rows)

    @override
    def attribution(self, subject: Subject) -> Tensor:
        features, start = subject.features, self._baseline_features(subject.features)
        difference = features - start
        points, weights = _quadrature_points(self.quadrature, self.num_steps)
        steps = points.to(features).reshape(-1, *[1] * (features.ndim - 1))

        def altered(copies: Tensor, samples: Tensor) -> Tensor:
            return start[samples] + steps[copies] * difference[samples]

        attribution = difference * averaged_gradient(
            subject, altered, weights, target=self.target, max_rows=self.max_rows
        )
        if not subject.create_graph and subject.model not in _warned:
            self._warn_of_missed_jumps(subject, attribution.detach())
        return attribution

    def completeness_gap(
        self, model: nn.Module, x: Tensor, y: Tensor, *, attribution: Tensor | None = None
    ) -> Tensor:
        r"""The error of the attributions' sum, :math:`\sum_i h_i(x) - (t(x) - t(b))`: ``(N,)``.

        Args:
            model: A model that gives logits ``(N, K)``.
            x: The explained samples.
            y: The explained classes.
            attribution: The attribution by this explainer, if it is known already.
        """
        known = self(model, x, y) if attribution is None else attribution.detach()
        change, _ = self._change(Subject(model, x, y, create_graph=False))
        return known.flatten(1).sum(dim=1) - change

    def _change(self, subject: Subject) -> tuple[Tensor, Tensor]:
        """The target's change from the baseline to the samples, and its value there."""
        rows = torch.arange(len(subject.x), device=subject.x.device)
        with torch.no_grad():
            end, start = (
                self.target(subject.probe(at, rows, needs_gradient=False).logits, subject.y)
                for at in (subject.features, self._baseline_features(subject.features))
            )
        return end - start, end

    def _warn_of_missed_jumps(self, subject: Subject, attribution: Tensor) -> None:
        """Warn once for a model if the attributions miss most of what the target changes by."""
        change, value = self._change(subject)
        gap = float((attribution.flatten(1).sum(dim=1) - change).abs().mean())
        size, rounding = float(change.abs().mean()), 1e-3 * float(value.abs().mean())
        if gap > MOST_MISSED * size + rounding:
            _warned.add(subject.model)
            logger.warning(
                "Integrated Gradients with num_steps=%d sum to a change of the %s that is off by "
                "%.2g on average, beside a change of %.2g. The model jumps between the baseline "
                "and the samples. Take more `num_steps`, or another baseline.",
                *(self.num_steps, self.target.value, gap, size),
            )

    def _baseline_features(self, features: Tensor) -> Tensor:
        baseline = self.baseline(features) if callable(self.baseline) else self.baseline
        start = torch.as_tensor(baseline, dtype=features.dtype, device=features.device)
        try:
            return start.expand_as(features)
        except RuntimeError as error:
            raise InvalidSettingError(
                f"Expected `baseline` to broadcast to the features, {tuple(features.shape)}, but "
                f"got shape {tuple(start.shape)}."
            ) from error


def _quadrature_points(quadrature: str, num_steps: int) -> tuple[Tensor, Tensor]:
    if quadrature == "gauss_legendre":
        points, weights = np.polynomial.legendre.leggauss(num_steps)  # on [-1, 1]
        return torch.from_numpy((points + 1) / 2), torch.from_numpy(weights / 2)
    weights = np.full(num_steps, 1 / (num_steps - 1))
    weights[[0, -1]] /= 2
    return torch.linspace(0, 1, num_steps, dtype=torch.float64), torch.from_numpy(weights)
