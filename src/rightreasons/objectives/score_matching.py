"""Score matching: a classifier whose implied density is that of the data."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.checks import check_integer, positive_float
from rightreasons.core.norms import sample_norm
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.objective import Objective, Term, Weight
from rightreasons.objectives.recipe import recipe
from rightreasons.probe.probe import Probe
from rightreasons.types import Target

__all__ = ["ScoreMatching", "score_matching"]


class ScoreMatching(Term):
    r"""How far the density :math:`p(x \mid y) \propto e^{f_y(x)}` is from the data's.

    .. math:: h(x) + \tfrac12 \lVert \nabla_x f_y(x) \rVert_2^2 + \mu \, h(x)^2, \qquad
        h(x) = \frac{1}{K \epsilon^2} \sum_k f_y(x + v_k) + f_y(x - v_k) - 2 f_y(x)

    with :math:`v_k \sim N(0, \epsilon^2 I)`, so that :math:`h \approx \operatorname{tr}
    \nabla_x^2 f_y(x)`. That is Hutchinson's estimate with differences in place of second
    derivatives, so that it also measures the kinks of ReLU nets. The first two summands are
    Hyvärinen's score matching. They have no lower bound; the last summand gives the sum one.
    Unit: logits per squared input unit. The term needs no masks.

    Differs from the paper: it takes :math:`\frac{2}{\epsilon^2}(f_y(x + v) - f_y(x))`, which has
    the same mean. Its noise, :math:`\frac{2}{\epsilon^2} \nabla_x f_y \cdot v`, is many times the
    trace; here it cancels between each draw and its mirror image. In nets with BatchNorm or dropout
    all summands are as at test time.

    Args:
        epsilon: Standard deviation of the noise, in input units; 0.01 in the paper's code.
        num_samples: K, each two forward passes; 10 single ones in the paper's code.
        stability: :math:`\mu`, at least 0; 0 by default in the paper's code.

    References:
        srinivas2021rethinking
    """

    needs_gradient = True

    def __init__(
        self, *, epsilon: float = 0.01, num_samples: int = 1, stability: float = 1e-4
    ) -> None:
        super().__init__()
        self.epsilon = positive_float("epsilon", epsilon)
        self.num_samples = check_integer("num_samples", num_samples)
        if (
            not isinstance(stability, int | float)
            or isinstance(stability, bool)
            or not 0 <= stability < float("inf")
        ):
            raise InvalidSettingError(
                f"Expected `stability` to be a finite number of at least 0, but got {stability!r}."
            )
        self.stability = float(stability)

    @override
    def forward(self, probe: Probe) -> Tensor:
        here = probe.at(probe.features.detach()) if probe.depends_on_mode else probe
        size = sample_norm(here.gradient(Target.LOGIT), "squared_l2") / 2
        trace = self._estimate_trace(probe, Target.LOGIT(here.logits, probe.batch.y))
        return trace + size + self.stability * trace.square()

    def _estimate_trace(self, probe: Probe, logit: Tensor) -> Tensor:
        x = probe.features.detach()
        moves = self.epsilon * torch.randn(
            self.num_samples, *x.shape, dtype=x.dtype, device=x.device
        )
        values = probe.each_at(
            torch.cat([x + moves, x - moves]),
            lambda moved: Target.LOGIT(moved.logits, moved.batch.y),
            create_graph=probe.create_graph,
        )  # (2 K, N)
        return 2 * (values - logit).mean(dim=0) / self.epsilon**2


@recipe(ScoreMatching)
def score_matching(task: Term, penalty: ScoreMatching, *, weight: Weight = 1e-5) -> Objective:
    """Score matching: the density that the label's logit implies is near the data's.

    The default weight is that of the paper's code for CIFAR, with inputs divided by their
    deviation.

    Example:
        >>> score_matching().weights
        {'cross_entropy': 1.0, 'score_matching': 1e-05}
    """
    return task + weight * penalty
