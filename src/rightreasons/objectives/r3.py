"""Right for the right reasons: no gradient inside the mask."""

from torch import Tensor

from rightreasons.norm import Norm, checked_norm, sample_norm
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe
from rightreasons.target import Target

__all__ = ["R3"]


class R3(Term):
    r"""The input gradient inside the mask: "right for the right reasons".

    .. math:: \lVert m \odot \nabla_x t(x) \rVert_2^2

    Unit: (target per input unit) squared; a sum over features. With inputs in [0, 1] and the loss
    as target, 0.01 means that moving all masked features along the gradient by a length of 0.1
    changes the loss by about 0.01.

    Differs from the paper: Ross et al. 2017 sum the gradient over the log-probabilities of all
    classes (``target="log_probabilities"``); the default here is the loss, as in R4's text, on
    which the model's errors depend. The loss has no gradient where the model is sure of the label:
    where masks lie on images of one class alone, a model can meet the penalty by being sure that
    what is masked means this class. ``target="margin"`` has no such way out.

    Args:
        target: What is differentiated.
        norm: ``"squared_l2"`` in the paper.

    References:
        ross2017right, ghitu2025model
    """

    needs_gradient = "inside"

    def __init__(self, *, target: Target | str = Target.LOSS, norm: Norm = "squared_l2") -> None:
        super().__init__()
        self.target = Target(target)
        self.norm = checked_norm(norm)

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        inside = probe.inside
        return sample_norm(inside.mask * inside.gradient(self.target), self.norm)
