"""Rand-R4: the largest masked gradient among random points of the box."""

from __future__ import annotations

from torch import Tensor

from rightreasons.attacks import GradientSize, worst_drawn
from rightreasons.inside import Inside
from rightreasons.norm import Norm
from rightreasons.objectives.r4 import R4, Form
from rightreasons.setting import checked_number
from rightreasons.target import Target
from rightreasons.types import Interval

__all__ = ["RandR4"]


class RandR4(R4):
    r"""The largest masked gradient among points drawn uniformly from the box.

    .. math:: \max_{k \le K} \lVert m \odot \nabla_x t(x + \xi_k) \rVert_2^2, \qquad
        \xi_k \sim U(-\epsilon m, \epsilon m)

    The worst point is chosen without a graph and differentiated once. Unit: as `R3`.

    Differs from the paper: the maximum is over points, of the norm, as in equation 3; section
    4.2.1 takes it feature by feature. Draws are on both sides of the sample (the public code draws
    upwards only), stay in the valid range, and the gradient of the penalty reaches the weights.

    Args:
        num_samples: K.
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
        num_samples: int = 5,
        epsilon: float | None = 0.5,
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
        self.num_samples = checked_number("num_samples", num_samples)

    def largest(self, inside: Inside, interval: Interval, size: GradientSize) -> Tensor:
        """See `R4.largest`."""
        worst = worst_drawn(
            inside, interval, size, target=self.target, num_samples=self.num_samples
        )
        return size(inside.at(worst, reach_weights=True).gradient(self.target, create_graph=True))
