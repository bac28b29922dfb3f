"""CURE: a loss that bends little in the direction of its own gradient."""

from __future__ import annotations

from torch import Tensor

from rightreasons.norm import Norm, checked_norm, sample_norm
from rightreasons.objectives.gradient_pair import nearby_gradient, source_gradient
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe
from rightreasons.setting import checked_factor
from rightreasons.target import Target

__all__ = ["CURE"]


class CURE(Term):
    r"""The change of the loss gradient after a step along its sign.

    .. math:: \lVert \nabla_x \ell(x + h z) - \nabla_x \ell(x) \rVert_2^2, \qquad
        z = \frac{\mathrm{sign}\, \nabla_x \ell(x)}{\lVert \mathrm{sign}\, \nabla_x \ell(x) \rVert}

    Both gradients move with the weights, z is constant. Unit: (nats per input unit) squared.

    Differs from the paper: nothing in the formula; its public code does not square the norm
    (``norm="l2"``).

    Args:
        epsilon: h, the length of the step in input units, over all features together. The paper's
            1.5 is for inputs in units of about a fifth of [0, 1].
        norm: ``"squared_l2"``, or another of `sample_norm`.

    References:
        moosavi2019robustness
    """

    needs_gradient = True

    def __init__(self, *, epsilon: float = 0.3, norm: Norm = "squared_l2") -> None:
        super().__init__()
        self.epsilon = checked_factor("epsilon", epsilon)
        self.norm = checked_norm(norm)

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        source = source_gradient(probe, Target.LOSS, detached=False)
        signs = source.detach().sign()
        lengths = sample_norm(signs, "l2").clamp_min(1.0)  # 0 where the gradient is
        steps = self.epsilon * signs / lengths.view(-1, *(1,) * (signs.ndim - 1))
        points = (probe.features.detach() + steps).unsqueeze(0)
        return sample_norm(nearby_gradient(probe, points, Target.LOSS)[0] - source, self.norm)
