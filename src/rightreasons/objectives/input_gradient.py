"""A smooth model: small input gradients everywhere, no mask needed."""

from torch import Tensor

from rightreasons.norm import Norm, checked_norm, sample_norm
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe
from rightreasons.target import Target

__all__ = ["InputGradient"]


class InputGradient(Term):
    r"""The Frobenius norm of the input gradient, :math:`\lVert \nabla_x f_y(x) \rVert_F`.

    Unit: logits per input unit; a sum over features.

    Differs from the paper: Ross & Doshi-Velez 2018 square the norm of the gradient of the loss;
    that is ``target="loss", norm="squared_l2"``. The default is the form the density paper
    compares with: the label's logit, not squared.

    Args:
        target: What is differentiated.
        norm: ``"l2"`` is the Frobenius norm.

    References:
        ross2018improving
    """

    needs_gradient = True

    def __init__(self, *, target: Target | str = Target.LOGIT, norm: Norm = "l2") -> None:
        super().__init__()
        self.target = Target(target)
        self.norm = checked_norm(norm)

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        return sample_norm(probe.gradient(self.target), self.norm)
