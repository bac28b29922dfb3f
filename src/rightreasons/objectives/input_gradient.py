"""The input gradient everywhere, without masks."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from rightreasons.core.norms import Norm, check_norm, sample_norm
from rightreasons.objectives.objective import Objective, Term, Weight
from rightreasons.objectives.recipe import recipe
from rightreasons.probe.probe import Probe
from rightreasons.types import Target

__all__ = ["InputGradient", "input_gradient"]


class InputGradient(Term):
    r"""The Frobenius norm of the input gradient, :math:`\lVert \nabla_x f_y(x) \rVert_F`.

    Unit: logits per input unit; a sum over features.

    Differs from the paper: Ross & Doshi-Velez 2018 square the norm of the gradient of the loss,
    ``target="loss", norm="squared_l2"`` here. The default is the form that the density paper
    compares with: the label's logit, not squared.

    Args:
        target: The output that is differentiated.
        norm: ``"l2"`` is the Frobenius norm.

    References:
        ross2018improving
    """

    needs_gradient = True
    compiles = True

    def __init__(self, *, target: Target | str = Target.LOGIT, norm: Norm = "l2") -> None:
        super().__init__()
        self.target = Target(target)
        self.norm = check_norm(norm)

    @override
    def forward(self, probe: Probe) -> Tensor:
        return sample_norm(probe.gradient(self.target), self.norm)


@recipe(InputGradient)
def input_gradient(task: Term, penalty: InputGradient, *, weight: Weight = 0.1) -> Objective:
    """Small input gradients everywhere; needs no masks.

    Example:
        >>> input_gradient(weight="auto").weights
        {'cross_entropy': 1.0, 'input_gradient': 0.0}
    """
    return task + weight * penalty
