"""The angle between input gradients of nearby inputs: random, bounded by theory, under attack."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.attacks import AttributionManipulation
from rightreasons.core.checks import check_integer, check_within, positive_float
from rightreasons.core.norms import sample_norm
from rightreasons.core.rng import sample_noise
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.explainers import InputGradient
from rightreasons.metrics.explanation_metric import CACHE_ROWS
from rightreasons.metrics.metric import Metric, Rows, check_prepared
from rightreasons.metrics.rps import cosine_similarity
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch, Target

__all__ = ["RobustCriterion", "cosine_criterion"]


@final
class RobustCriterion(Metric):
    r"""The cosine robust criterion, its bound by curvature, and its value under attack.

    With :math:`g = \nabla_x t(x)` and :math:`g' = \nabla_x t(x + \delta)`,
    :math:`\delta \sim U[-\epsilon, \epsilon]^d` within the valid range, means over draws of

    ====================== ==================================================================
    ``robust_criterion``   :math:`\Gamma = \tfrac12 (1 - \cos(g', g))`, the paper's Definition 4
    ``l2``                 :math:`\lVert g' - g \rVert_2`, which is not invariant to scale
    ``bound``              :math:`\lVert \delta \rVert_2 \lVert H(x) \rVert_F / \lVert g' \rVert_2`,
                           Theorem 6 without its :math:`O(\epsilon^2)`
    ``directional_bound``  :math:`\lVert H(x) \delta \rVert_2 / \lVert g' \rVert_2`, the tighter
                           one of Figure 3b
    ``aam``                :math:`\Gamma` at the result of an untargeted attack with the same
                           :math:`\epsilon` that keeps the prediction
    ``gap``                ``aam`` less ``robust_criterion``: what random noise does not show
    ====================== ==================================================================

    :math:`\lVert H \rVert_F` is estimated, as the root mean square of :math:`\lVert H v \rVert_2`
    over standard normal :math:`v`. The bounds hold for nets that are twice differentiable. ReLU and
    max pooling have kinks, which no Hessian shows: a ReLU net's bound is 0 and bounds nothing.
    Draws depend on the seed and the sample, never on the batch.

    Args:
        epsilon: Radius of noise and attack, in input units.
        target: What is differentiated; the label's logit in the paper.
        num_draws: Number of noise draws for each sample.
        num_projections: Number of draws for the norm of the Hessian.
        num_steps: Number of steps of the attack.
        softplus_beta: Sharpness of the Softplus that replaces ReLU in the attacked net; None
            attacks the net itself.
        seed: Random seed for all draws.

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
        self._attack(CACHE_ROWS)  # checks the remaining settings

    def prepare(self, data: Dataset) -> None:
        """Take the valid range from the card."""
        self._valid_range = data.card.valid_range

    @override
    def measure(self, probe: Probe) -> Rows:
        _, index = check_prepared(self, self._valid_range, probe.batch.index)
        if not probe.batch.x.is_floating_point():
            raise InvalidBatchError(
                "Expected floating point `x` for RobustCriterion, but got token ids."
            )
        check_within(probe.features.detach(), self._valid_range)
        max_rows = probe.rows_for("second_order", CACHE_ROWS)
        parts = [
            self._measure_noise(probe, probe.batch[first : first + max_rows])
            for first in range(0, len(index), max_rows)
        ]
        rows = {name: torch.cat([part[name] for part in parts]).float() for name in parts[0]}
        attack = self._attack(max_rows)
        attacked = attack(probe.model, probe.features, probe.batch.y, index=index)
        return {**rows, "aam": attacked.after.float()}

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
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

    def _measure_noise(self, probe: Probe, batch: Batch) -> Rows:
        x, y, index = batch.x.detach(), batch.y, batch.index
        size, low, high = x.shape[1:], *(self._valid_range or (0.0, 1.0))
        index = torch.arange(len(x)) if index is None else index
        clean = Probe.at_test_time(probe.model, Batch.trusted(x=x, y=y), needs_gradient=True)
        gradient = clean.gradient(self.target)
        directions = sample_noise(
            index, size, num_draws=self.num_projections, seed=self.seed + 1, kind="normal"
        )
        squares = [
            sample_norm(_hessian_product(gradient, clean.features, v.to(x)), "squared_l2")
            for v in directions
        ]
        frobenius = torch.stack(squares).double().mean(dim=0).sqrt()
        totals: Rows = {}
        for noise in sample_noise(index, size, num_draws=self.num_draws, seed=self.seed):
            noisy = x + self.epsilon * (2 * noise.to(x) - 1)
            noisy = noisy.clamp(x.clamp(max=low), x.clamp(min=high))
            noisy_gradient = InputGradient(target=self.target)(probe.model, noisy, y)
            change = _hessian_product(gradient, clean.features, noisy - x)
            length = sample_norm(noisy_gradient, "l2").double()
            clean_gradient = gradient.detach()
            values = {
                "criterion": cosine_criterion(noisy_gradient, clean_gradient),
                "l2": sample_norm(noisy_gradient - clean_gradient, "l2").double(),
                "bound": _ratio(frobenius * sample_norm(noisy - x, "l2").double(), length),
                "directional_bound": _ratio(sample_norm(change, "l2").double(), length),
            }
            totals = {k: totals.get(k, 0.0) + v / self.num_draws for k, v in values.items()}
        return totals


def cosine_criterion(gradient: Tensor, reference: Tensor) -> Tensor:
    r"""Definition 4: :math:`\tfrac12 (1 - \cos(g, g_0))`, ``(N, *S) -> (N,)``, from 0 to 1.

    Example:
        >>> cosine_criterion(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]]))
        tensor([0.5000], dtype=torch.float64)
    """
    return (1 - cosine_similarity(gradient, reference)) / 2


def _hessian_product(gradient: Tensor, x: Tensor, direction: Tensor) -> Tensor:
    """The Hessian times a direction, ``(N, *S)``; zeros where the gradient has no graph."""
    if not gradient.requires_grad:
        return torch.zeros_like(direction)
    (product,) = torch.autograd.grad(gradient, x, direction, retain_graph=True, allow_unused=True)
    return torch.zeros_like(direction) if product is None else product


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Infinite where only the denominator is 0, 0 where both are."""
    return torch.where(numerator == 0, 0, numerator / denominator)
