"""IBP-Ex and PGD-Ex: the loss at the worst value of the masked features (Heo et al. 2023)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import Unpack, override

from rightreasons.attacks import worst_value
from rightreasons.core.checks import check_integer, positive_float
from rightreasons.objectives.objective import Objective, Term, Weight
from rightreasons.objectives.r3 import R3
from rightreasons.objectives.recipe import recipe
from rightreasons.objectives.robust_term import BoxSettings, RobustTerm
from rightreasons.probe.probe import Probe
from rightreasons.types import Target

__all__ = ["IbpEx", "PgdEx", "ibp_ex", "ibp_ex_r3", "pgd_ex"]


class IbpEx(RobustTerm):
    r"""The cross-entropy of the worst logits over the masked box.

    .. math:: -\log \frac{e^{l_y}}{e^{l_y} + \sum_{k \ne y} e^{u_k}} \quad\text{with}\quad
        l \le f(x') \le u \;\; \text{for all}\;\; |x' - x| \le \epsilon m

    Zero for samples whose mask is empty: they have the clean loss. Unit: nats, as cross-entropy.
    ``CrossEntropy() + 1.0 * IbpEx()`` gives both losses the same weight, as in the paper.

    Differs from R4's public code: its softmax is over an axis of length one, so that its IBP-Ex is
    constant.

    Args:
        epsilon: Half the box's width, see `RobustTerm`.
        **settings: ``valid_range`` and the ramp of `RobustTerm`.

    References:
        heo2023use, ghitu2025model
    """

    def __init__(self, *, epsilon: float | None = 0.1, **settings: Unpack[BoxSettings]) -> None:
        super().__init__(epsilon=epsilon, **settings)

    @override
    def forward(self, probe: Probe) -> Tensor:
        masked = probe.masked
        center, radius = masked.output_box(self.box(masked))
        is_label = functional.one_hot(masked.y, center.shape[1]).bool()
        worst = center + torch.where(is_label, -radius, radius)
        losses = functional.cross_entropy(worst, masked.y, reduction="none")
        return torch.where(masked.mask.any(dim=1), losses, 0.0)


@recipe(IbpEx, epsilon=1.0)  # chosen on Decoy MNIST, together with the weight
def ibp_ex(task: Term, penalty: IbpEx, *, weight: Weight = 0.3) -> Objective:
    """IBP-Ex: right for the worst logits that interval bounds allow in the masked box.

    Example:
        >>> ibp_ex(epsilon=None).weights  # masked features may take every valid value
        {'cross_entropy': 1.0, 'ibp_ex': 0.3}
    """
    return task + weight * penalty


@recipe(IbpEx, R3, epsilon=1.0)  # as in ibp_ex
def ibp_ex_r3(
    task: Term, ibp_ex: IbpEx, r3: R3, *, weight: Weight = 0.3, r3_weight: Weight = 30.0
) -> Objective:
    """IBP-Ex + R3: both, each with its own weight.

    Example:
        >>> ibp_ex_r3().weights
        {'cross_entropy': 1.0, 'ibp_ex': 0.3, 'r3': 30.0}
    """
    return task + weight * ibp_ex + r3_weight * r3


class PgdEx(RobustTerm):
    r"""The cross-entropy at the worst point of the masked box that an attack finds.

    .. math:: \max_{|x' - x| \le \epsilon m} -\log p(y \mid x')

    by projected sign-gradient ascent of the loss. Zero for samples whose mask is empty. Unit:
    nats. It is never above `IbpEx` with the same box.

    Args:
        epsilon: Half the box's width, see `RobustTerm`.
        num_steps: Number of steps of the ascent.
        step_size: Length of a step, as a share of the box's width on each feature.
        **settings: ``valid_range`` and the ramp of `RobustTerm`.

    References:
        heo2023use
    """

    def __init__(
        self,
        *,
        epsilon: float | None = 0.5,
        num_steps: int = 5,
        step_size: float = 0.25,
        **settings: Unpack[BoxSettings],
    ) -> None:
        super().__init__(epsilon=epsilon, **settings)
        self.num_steps = check_integer("num_steps", num_steps)
        self.step_size = positive_float("step_size", step_size)

    @override
    def forward(self, probe: Probe) -> Tensor:
        masked = probe.masked
        own = None if probe.depends_on_mode else Target.LOSS(probe.logits, masked.y)
        settings = {"num_steps": self.num_steps, "step_size": self.step_size}
        worst, _ = worst_value(masked, self.box(masked), known=own, **settings)  # type: ignore[arg-type]
        logits = masked.at(worst, reach_weights=True).logits
        losses = functional.cross_entropy(logits, masked.y, reduction="none")
        return torch.where(masked.mask.any(dim=1), losses, 0.0)


@recipe(PgdEx)
def pgd_ex(task: Term, penalty: PgdEx, *, weight: Weight = 1.0) -> Objective:
    """PGD-Ex: right where an attack on the masked features ends.

    Example:
        >>> pgd_ex().weights
        {'cross_entropy': 1.0, 'pgd_ex': 1.0}
    """
    return task + weight * penalty
