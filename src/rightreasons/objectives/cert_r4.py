"""Cert-R4: a proven bound of the largest masked gradient in the box."""

from __future__ import annotations

from torch import Tensor

from rightreasons.attacks import GradientSize
from rightreasons.inside import Inside
from rightreasons.norm import Norm, sample_norm
from rightreasons.objectives.r4 import R4, Form
from rightreasons.target import Target
from rightreasons.types import Interval

__all__ = ["CertR4"]


class CertR4(R4):
    r"""An upper bound of the largest masked gradient, by interval arithmetic.

    .. math:: \lVert m \odot \max(|l|, |u|) \rVert_2^2 \quad\text{with}\quad
        l \le \nabla_x t(x') \le u \;\; \text{for all}\;\; |x' - x| \le \epsilon m

    Exact at epsilon 0, where it is `R3`, and looser with depth: deep nets need a small epsilon and
    a ramp. Unit: as `R3`.

    Differs from the paper: the squared norm of the largest magnitude, where the public code sums
    :math:`|l| + |u|` (nearly ``norm="l1"``). The bounds are those of the loss that is trained.

    Args:
        epsilon: See `R4`.
        target: See `R4`.
        norm: See `R4`.
        form: See `R4`.
        valid_range: See `RobustTerm`.
        ramp: See `RobustTerm`.

    References:
        ghitu2025model
    """

    def __init__(
        self,
        *,
        epsilon: float | None = 0.1,
        target: Target | str = Target.LOSS,
        norm: Norm = "squared_l2",
        form: Form = "gradient",
        valid_range: tuple[float, float] | None = None,
        ramp: float = 0.0,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            target=target,
            norm=norm,
            form=form,
            valid_range=valid_range,
            ramp=ramp,
        )

    def largest(self, inside: Inside, interval: Interval, size: GradientSize) -> Tensor:
        """See `R4.largest`."""
        _, gradient = inside.gradient_box(interval, self.target)
        center = gradient.center if size.reference is None else gradient.center - size.reference
        return sample_norm(inside.mask * (center.abs() + gradient.radius), self.norm)
