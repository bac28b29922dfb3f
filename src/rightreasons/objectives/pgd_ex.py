"""PGD-Ex: right for the worst values of the masked features that an attack finds."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.attacks import worst_value
from rightreasons.objectives.robust_term import RobustTerm
from rightreasons.probe import Probe
from rightreasons.setting import checked_factor, checked_number

__all__ = ["PgdEx"]


class PgdEx(RobustTerm):
    r"""The cross-entropy at the worst point of the masked box that an attack finds.

    .. math:: \max_{|x' - x| \le \epsilon m} -\log p(y \mid x')

    by projected sign-gradient ascent of the loss. Zero for samples whose mask is empty. Unit:
    nats. Never above `IbpEx` with the same box.

    Args:
        num_steps: Steps of the ascent.
        step_size: As a share of the box's width on each feature.
        epsilon: See `RobustTerm`.
        valid_range: See `RobustTerm`.
        ramp: See `RobustTerm`.

    References:
        heo2023use
    """

    def __init__(
        self,
        *,
        num_steps: int = 5,
        step_size: float = 0.25,
        epsilon: float | None = 0.5,
        valid_range: tuple[float, float] | None = None,
        ramp: float = 0.0,
    ) -> None:
        super().__init__(epsilon=epsilon, valid_range=valid_range, ramp=ramp)
        self.num_steps = checked_number("num_steps", num_steps)
        self.step_size = checked_factor("step_size", step_size)

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        inside = probe.inside
        settings = {"num_steps": self.num_steps, "step_size": self.step_size}
        worst, _ = worst_value(inside, self.box(inside), **settings)  # type: ignore[arg-type]
        logits = inside.at(worst, reach_weights=True).logits
        losses = functional.cross_entropy(logits, inside.y, reduction="none")
        return torch.where(inside.mask.any(dim=1), losses, 0.0)
