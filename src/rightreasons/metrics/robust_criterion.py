"""How far the input gradient turns nearby: at random, at most by theory, and under attack."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from rightreasons.attacks import AttributionManipulation
from rightreasons.core.checks import check_integer, positive_float
from rightreasons.core.norms import sample_norm
from rightreasons.core.rng import sample_noise
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.explainers import InputGradient
from rightreasons.metrics.explanation_metric import COMFORTABLE_ROWS
from rightreasons.metrics.metric import Metric, Rows
from rightreasons.metrics.rps import cosine_similarity
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch, Target

__all__ = ["RobustCriterion", "cosine_criterion"]


def cosine_criterion(gradient: Tensor, reference: Tensor) -> Tensor:
    r"""Definition 4: :math:`\tfrac12 (1 - \cos(g, g_0))`, ``(N, *S) -> (N,)``, from 0 to 1.

    Example:
        >>> cosine_criterion(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]]))
        tensor([0.5000], dtype=torch.float64)
    """
    return (1 - cosine_similarity(gradient, reference)) / 2


@final
class RobustCriterion(Metric):
    r"""The cosine robust criterion, its bound by curvature, and how much an attack adds.

    With :math:`g = \nabla_x t(x)` and :math:`g' = \nabla_x t(x + \delta)`,
    :math:`\delta \sim U[-\epsilon, \epsilon]^d` within the valid range, means over draws of

    ====================== ==================================================================
    ``robust_criterion``   :math:`\Gamma = \tfrac12 (1 - \cos(g', g))`, the paper's Definition 4
    ``l2``                 :math:`\lVert g' - g \rVert_2`, which is not invariant to scale
    ``bound``              :math:`\lVert \delta \rVert_2 \lVert H(x) \rVert_F / \lVert g' \rVert_2`,
                           Theorem 6 without its :math:`O(\epsilon^2)`
    ``directional_bound``  :math:`\lVert H(x) \delta \rVert_2 / \lVert g' \rVert_2`, the tighter
                           one of Figure 3b
    ``aam``                :math:`\Gamma` where an untargeted attack with the same
                           :math:`\epsilon` ends; the prediction stays
    ``gap``                ``aam`` less ``robust_criterion``: what random noise does not show
    ====================== ==================================================================

    :math:`\lVert H \rVert_F` is estimated, as the root mean square of :math:`\lVert H v \rVert_2`
    over standard normal :math:`v`. The bounds hold for nets that are twice differentiable. ReLU and
    max pooling have kinks, which no Hessian shows: a ReLU net's bound is 0 and bounds nothing.
    Draws depend on the seed and the sample, never on the batch.

    Args:
        epsilon: In input units.
        target: What is differentiated; the label's logit in the paper.
        num_draws: Of the noise.
        num_projections: Draws for the norm of the Hessian.
        num_steps: Of the attack.
        softplus_beta: See `AttributionManipulation`.
        seed: Of all draws.

    References:
        joo2023towards
    """

    name = "robust_criterion"
    higher_is_better = False

    def __init__(
        self,
        *,
        epsilon: float = 4 / 255,
        target: Target | str = Target.LOGIT,
        num_draws: int = 5,
        num_projections: int = 10,
        num_steps: int = 20,
        softplus_beta: float | None = 10.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.epsilon = positive_float("epsilon", epsilon)
        self.target = Target(target)
        self.num_draws = check_integer("num_draws", num_draws)
        self.num_projections = check_integer("num_projections", num_projections)
        self.num_steps, self.softplus_beta = num_steps, softplus_beta
        self.seed = check_integer("seed", seed, low=0)
        self._valid_range: tuple[float, float] | None = None
        self._attack(COMFORTABLE_ROWS)  # checks the rest

    def prepare(self, data: Dataset) -> None:
        """Take the valid range from the card."""
        self._valid_range = data.card.valid_range

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        index = probe.batch.index
        if self._valid_range is None or index is None:
            raise InvalidBatchError(
                "Expected RobustCriterion.prepare(data) before the first batch, and batches with "
                "an `index`. evaluate() does both."
            )
        if not probe.features.is_floating_point():
            raise InvalidBatchError(
                "Expected floating point `x` for RobustCriterion, but got token ids."
            )
        max_rows = probe.max_rows or COMFORTABLE_ROWS
        parts = [
            self._measured(probe, probe.batch[first : first + max_rows])
            for first in range(0, len(index), max_rows)
        ]
        found = {name: torch.cat([part[name] for part in parts]).float() for name in parts[0]}
        attack = self._attack(max_rows)
        attacked = attack(probe.model, probe.features, probe.batch.y, index=index)
        return {**found, "aam": attacked.after.float()}

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        names = ("criterion", "l2", "bound", "directional_bound", "aam")
        means = {name: float(rows[name].double().mean()) for name in names}
        gap = means["aam"] - means["criterion"]
        return {"": means.pop("criterion"), **means, "gap": gap}

    def _attack(self, max_rows: int) -> AttributionManipulation:
        return AttributionManipulation(
            explainer=InputGradient(target=self.target),
            epsilon=self.epsilon,
            num_steps=self.num_steps,
            distance=cosine_criterion,
            valid_range=self._valid_range,
            softplus_beta=self.softplus_beta,
            seed=self.seed,
            max_rows=max_rows,
        )

    def _measured(self, probe: Probe, batch: Batch) -> Rows:
        x, y, index = batch.x.detach(), batch.y, batch.index
        size, low, high = x.shape[1:], *(self._valid_range or (0.0, 1.0))
        places = torch.arange(len(x)) if index is None else index
        here = Probe.at_test_time(probe.model, Batch.trusted(x=x, y=y), needs_gradient=True)
        gradient = here.gradient(self.target)
        directions = sample_noise(
            places, size, num_draws=self.num_projections, seed=self.seed + 1, kind="normal"
        )
        squares = [
            sample_norm(_curvature(gradient, here.features, v.to(x)), "squared_l2")
            for v in directions
        ]
        frobenius = torch.stack(squares).double().mean(dim=0).sqrt()
        totals: Rows = {}
        for noise in sample_noise(places, size, num_draws=self.num_draws, seed=self.seed):
            moved = x + self.epsilon * (2 * noise.to(x) - 1)
            moved = moved.clamp(x.clamp(max=low), x.clamp(min=high))
            there = InputGradient(target=self.target)(probe.model, moved, y)
            turned = sample_norm(_curvature(gradient, here.features, moved - x), "l2").double()
            length = sample_norm(there, "l2").double()
            own = gradient.detach()
            values = {
                "criterion": cosine_criterion(there, own),
                "l2": sample_norm(there - own, "l2").double(),
                "bound": _ratio(frobenius * sample_norm(moved - x, "l2").double(), length),
                "directional_bound": _ratio(turned, length),
            }
            totals = {k: totals.get(k, 0.0) + v / self.num_draws for k, v in values.items()}
        return totals


def _curvature(gradient: Tensor, x: Tensor, direction: Tensor) -> Tensor:
    """The Hessian times a direction, ``(N, *S)``; zeros where the gradient has no graph."""
    if not gradient.requires_grad:
        return torch.zeros_like(direction)
    (product,) = torch.autograd.grad(gradient, x, direction, retain_graph=True, allow_unused=True)
    return torch.zeros_like(direction) if product is None else product


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """Infinite where only the denominator is 0, 0 where both are."""
    return torch.where(above == 0, 0, above / below)
