"""ATEX: predictions that stay the same across the direction of an explanation."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.checks import positive_float
from rightreasons.core.norms import sample_norm
from rightreasons.errors import InvalidBatchError
from rightreasons.objectives.alignment import SMALLEST_NORM, source_gradient
from rightreasons.objectives.objective import Objective, Term, Weight
from rightreasons.objectives.recipe import recipe
from rightreasons.probe.probe import Probe
from rightreasons.types import Target

__all__ = ["ATEX", "atex"]


class ATEX(Term):
    r"""Adversarial training on explanations: predictions equal the teacher's across its gradient.

    .. math:: \mathrm{KL}\big(p_T(x_0) \,\big\Vert\, p(x_0 + \xi_\perp)\big), \qquad
        x_0 = x + \tau \epsilon \frac{g}{\lVert g \rVert_\infty}, \quad
        \xi_\perp = \xi - \frac{\xi^\top g}{\lVert g \rVert^2} g

    where :math:`g = \nabla_x f_y(x)` is the teacher's gradient, :math:`\tau \sim U(-1/2, 1/2)`
    moves along it and :math:`\xi \sim U(-\epsilon, \epsilon)` across it: there, predictions should
    not change. Only first derivatives are needed. Unit: nats.

    Differs from the paper: it distils a trained copy of the model with softened labels
    (``teacher=trained, temperature=4``) and explains by SmoothGrad. Here the teacher is by default
    the model itself, held constant at every step, and its explanation is its gradient. The position
    along the gradient is drawn, where the paper has one of two.

    Args:
        epsilon: Size of the steps along and across the gradient, in input units.
        teacher: A trained model, copied and frozen; None is the model itself.
        temperature: Divisor of the teacher's logits.

    References:
        tang2022defense
    """

    needs_gradient = True

    def __init__(
        self,
        *,
        epsilon: float = 8 / 255,
        teacher: nn.Module | None = None,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        self.epsilon = positive_float("epsilon", epsilon)
        self.temperature = positive_float("temperature", temperature)
        self.teacher = None if teacher is None else copy.deepcopy(teacher).requires_grad_(False)

    @override
    def forward(self, probe: Probe) -> Tensor:
        if self.teacher is None:
            gradient = source_gradient(probe, Target.LOGIT, detached=True)
        else:
            if not probe.batch.x.is_floating_point():
                raise InvalidBatchError(
                    "Expected floating point `x` for a teacher, but got token ids: its embeddings "
                    "are not those of the model. Leave `teacher` out."
                )
            settings = {"needs_gradient": True, "create_graph": False}
            teacher = Probe.at_test_time(self.teacher, probe.batch, **settings)
            gradient = teacher.gradient(Target.LOGIT)
        start, moved = self._points(probe.features.detach(), gradient.detach())
        with torch.no_grad():
            model = probe.model if self.teacher is None else self.teacher
            logits = Probe.at_test_time(model, probe.batch, features=start).logits
            expected = functional.log_softmax(logits / self.temperature, dim=1)
        # The pass needs no input gradient, so its graph reaches the weights alone.
        logits = Probe.at_test_time(probe.model, probe.batch, features=moved).logits
        given = functional.log_softmax(logits, dim=1)
        divergence = functional.kl_div(given, expected, reduction="none", log_target=True)
        return divergence.sum(dim=1)

    def _points(self, x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """A point along the gradient, and another across the gradient from there."""
        each = (-1, *(1,) * (x.ndim - 1))
        largest = gradient.flatten(1).abs().amax(dim=1).clamp_min(SMALLEST_NORM).view(each)
        along = torch.rand(len(x), dtype=x.dtype, device=x.device).sub_(0.5).view(each)
        start = x + along * self.epsilon * gradient / largest
        noise = torch.empty_like(x).uniform_(-self.epsilon, self.epsilon)
        unit = gradient / sample_norm(gradient, "l2").clamp_min(SMALLEST_NORM).view(each)
        length = (noise * unit).flatten(1).sum(dim=1).view(each)  # of the noise along the gradient
        return start, start + noise - length * unit


@recipe(ATEX, without=["teacher"])  # a model does not fit into a configuration
def atex(task: Term, penalty: ATEX, *, weight: Weight = 1.0) -> Objective:
    """ATEX: equal predictions perpendicular to the gradient; the model is its own teacher.

    Example:
        >>> atex().weights
        {'cross_entropy': 1.0, 'atex': 1.0}
    """
    return task + weight * penalty
