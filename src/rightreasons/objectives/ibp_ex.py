"""IBP-Ex: right for every value the masked features may take, by interval bounds."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.objectives.robust_term import RobustTerm
from rightreasons.probe import Probe

__all__ = ["IbpEx"]


class IbpEx(RobustTerm):
    r"""The cross-entropy of the worst logits over the masked box.

    .. math:: -\log \frac{e^{l_y}}{e^{l_y} + \sum_{k \ne y} e^{u_k}} \quad\text{with}\quad
        l \le f(x') \le u \;\; \text{for all}\;\; |x' - x| \le \epsilon m

    Zero for samples whose mask is empty: they have the clean loss. Unit: nats, as cross-entropy.

    Differs from the paper: Heo et al. 2023 weigh this against the clean loss, as here, so
    ``CrossEntropy() + 1.0 * IbpEx()`` gives both the same weight. R4's public code takes a softmax
    over an axis of length one, by which its IBP-Ex is constant.

    Args:
        epsilon: See `RobustTerm`.
        valid_range: See `RobustTerm`.
        ramp: See `RobustTerm`.

    References:
        heo2023use, ghitu2025model
    """

    def __init__(
        self,
        *,
        epsilon: float | None = 0.1,
        valid_range: tuple[float, float] | None = None,
        ramp: float = 0.0,
    ) -> None:
        super().__init__(epsilon=epsilon, valid_range=valid_range, ramp=ramp)

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        inside = probe.inside
        center, radius = inside.output_box(self.box(inside))
        own = functional.one_hot(inside.y, center.shape[1]).bool()
        worst = center + torch.where(own, -radius, radius)
        losses = functional.cross_entropy(worst, inside.y, reduction="none")
        return torch.where(inside.mask.any(dim=1), losses, 0.0)
