"""Adv-R4: the largest masked gradient that climbing within the box finds."""

from __future__ import annotations

from torch import Tensor

from rightreasons.attacks import GradientSize, climbed, worst_drawn
from rightreasons.inside import Inside
from rightreasons.norm import Norm
from rightreasons.objectives.r4 import R4, Form
from rightreasons.setting import checked_factor, checked_number
from rightreasons.target import Target
from rightreasons.types import Interval

__all__ = ["AdvR4"]


class AdvR4(R4):
    r"""The largest masked gradient found by projected sign-gradient ascent.

    .. math:: x' \leftarrow \Pi\left(x' + \alpha \, \mathrm{sign}\, \nabla_{x'}
        \lVert m \odot \nabla_x t(x') \rVert\right)

    The ascent climbs the penalty itself, begins at the worst of ``num_samples`` draws and keeps
    the best point it passed; that point is then differentiated once. Unit: as `R3`.

    Differs from the paper: its public code climbs the plain loss, with steps as wide as the box,
    and its penalty has no gradient with respect to the weights.

    Args:
        num_steps: Steps of the ascent.
        step_size: As a share of the box's width (2 epsilon) on each feature.
        num_samples: Draws to begin with; with Rand-R4's number and the same random state it is
            never below Rand-R4.
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
        num_steps: int = 3,
        step_size: float = 0.25,
        num_samples: int = 1,
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
        self.num_steps = checked_number("num_steps", num_steps)
        self.step_size = checked_factor("step_size", step_size)
        self.num_samples = checked_number("num_samples", num_samples)

    def largest(self, inside: Inside, interval: Interval, size: GradientSize) -> Tensor:
        """See `R4.largest`."""
        target = self.target
        start = worst_drawn(inside, interval, size, target=target, num_samples=self.num_samples)
        worst = climbed(
            inside,
            interval,
            size,
            start,
            target=target,
            num_steps=self.num_steps,
            step_size=self.step_size,
        )
        return size(inside.at(worst, reach_weights=True).gradient(target, create_graph=True))
