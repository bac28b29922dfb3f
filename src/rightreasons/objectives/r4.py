"""The R4 family: the largest masked gradient in a box around each sample."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

from torch import Tensor

from rightreasons.attacks import GradientSize
from rightreasons.inside import Inside
from rightreasons.norm import Norm, checked_norm
from rightreasons.objectives.robust_term import RobustTerm
from rightreasons.probe import Probe
from rightreasons.setting import checked_choice
from rightreasons.target import Target
from rightreasons.types import Interval

__all__ = ["R4", "Form"]

Form = Literal["gradient", "change"]


class R4(RobustTerm):
    r"""The inner maximum of R4's equation 3, which members approximate each in their way.

    .. math:: \max_{|x' - x| \le \epsilon m} \lVert m \odot \nabla_x t(x') \rVert

    With ``form="change"`` it is the largest *change* of the masked gradient (section 4.2 of the
    paper), :math:`\lVert m \odot (\nabla_x t(x') - \nabla_x t(x)) \rVert`. For the same box, form
    and norm, on every sample: Rand-R4 ≤ Adv-R4 (begun at its draws) ≤ maximum ≤ Cert-R4.

    Args:
        epsilon: See `RobustTerm`.
        target: What is differentiated.
        norm: ``"l1"``, ``"l2"``, ``"squared_l2"`` or a number.
        form: ``"gradient"`` or ``"change"``.
        valid_range: See `RobustTerm`.
        ramp: See `RobustTerm`.
    """

    def __init__(
        self,
        *,
        epsilon: float | None,
        target: Target | str,
        norm: Norm,
        form: Form,
        valid_range: tuple[float, float] | None,
        ramp: float,
    ) -> None:
        super().__init__(epsilon=epsilon, valid_range=valid_range, ramp=ramp)
        self.target = Target(target)
        self.norm = checked_norm(norm)
        self.form = checked_choice("form", form, ("gradient", "change"))

    @abstractmethod
    def largest(self, inside: Inside, interval: Interval, size: GradientSize) -> Tensor:
        """The largest size of the gradient in the box, for each sample, ``(N,)``."""

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        inside = probe.inside
        reference = inside.gradient(self.target) if self.form == "change" else None
        size = GradientSize(inside.mask, self.norm, reference)
        return self.largest(inside, self.box(inside), size)
