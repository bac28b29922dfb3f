"""FGSM: one step to the edge of the ball."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from rightreasons.attacks.attacked import Attacked, Record
from rightreasons.attacks.ball import BallNorm
from rightreasons.attacks.output_attack import OutputAttack
from rightreasons.attacks.output_loss import climb_slope, cross_entropy, deployed_logits

__all__ = ["FGSM"]


@final
class FGSM(OutputAttack):
    r"""The fast gradient sign method: one step of full length up the loss.

    .. math:: x' = \Pi\left(x + \epsilon \, \mathrm{sign}\, \nabla_x \ell(x)\right)

    With ``norm="l2"`` the step is :math:`\epsilon \nabla_x \ell / \lVert \nabla_x \ell \rVert_2`.
    For a linear model with two classes nothing in the ball is worse.

    Differs from the paper: nothing known. (The density paper writes the label's logit in place of
    the loss, up which a model gets more certain of the label, not less.)

    Args:
        epsilon: See `Ball`.
        norm: See `Ball`.
        valid_range: See `Ball`.
        max_rows: See `OutputAttack`.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> found = FGSM(epsilon=0.1)(model, torch.rand(3, 2), torch.tensor([0, 1, 1]))
        >>> found.x.shape, found.fooled.shape
        (torch.Size([3, 2]), torch.Size([3]))

    References:
        goodfellow2015explaining
    """

    def __init__(
        self,
        *,
        epsilon: float,
        norm: BallNorm = "linf",
        valid_range: tuple[float, float] | None = (0.0, 1.0),
        max_rows: int | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            norm=norm,
            num_restarts=1,
            valid_range=valid_range,
            seed=0,
            max_rows=max_rows,
        )

    def search(
        self, model: nn.Module, x: Tensor, y: Tensor, *, index: Tensor, run: int
    ) -> Attacked:
        """See `OutputAttack.search`."""
        del index, run
        _, _, slope = climb_slope(model, x, y, cross_entropy)
        point = self.ball.projected(x + self.ball.epsilon * self.ball.direction(slope), x)
        record = Record(x)
        rows = torch.arange(len(x), device=x.device)
        record.see(rows, point, deployed_logits(model, point, y), y)
        return record.result()
