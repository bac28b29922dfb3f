"""Projected gradient descent, and its form of one step, FGSM."""

from __future__ import annotations

import math
from typing import Literal, final

import torch
from torch import Tensor, nn

from rightreasons.attacks.ball import BallNorm
from rightreasons.attacks.output_attack import (
    Attacked,
    OutputAttack,
    Record,
    climb_slope,
    cross_entropy,
    deployed_logits,
)
from rightreasons.core.checks import check_choice, check_flag, check_integer, positive_float

__all__ = ["FGSM", "PGD", "StepSchedule", "step_lengths"]

StepSchedule = Literal["constant", "cosine", "halving"]
SCHEDULES: tuple[StepSchedule, ...] = ("constant", "cosine", "halving")


def step_lengths(
    epsilon: float,
    num_steps: int,
    *,
    step_size: float | None = None,
    schedule: StepSchedule = "constant",
) -> list[float]:
    r"""How long each step is.

    Args:
        epsilon: The ball's radius.
        num_steps: How many.
        step_size: Of the first; None lets all steps together go :math:`2.5 \epsilon`, which
            reaches every point of the ball from every other.
        schedule: ``"constant"``; ``"cosine"``, times :math:`\frac12 (1 + \cos(\pi t / T))`;
            ``"halving"``, half as long after every quarter of the steps.

    Example:
        >>> step_lengths(0.3, 4, step_size=8.0, schedule="halving")
        [8.0, 4.0, 2.0, 1.0]
        >>> step_lengths(0.5, 5)
        [0.25, 0.25, 0.25, 0.25, 0.25]
    """
    shares = [1.0] * num_steps
    if schedule == "cosine":
        shares = [(1 + math.cos(math.pi * step / num_steps)) / 2 for step in range(num_steps)]
    elif schedule == "halving":
        shares = [0.5 ** (4 * step // num_steps) for step in range(num_steps)]
    first = 2.5 * epsilon / sum(shares) if step_size is None else step_size
    return [first * share for share in shares]


@final
class PGD(OutputAttack):
    r"""Projected gradient ascent of the loss.

    .. math:: x^{(t+1)} = \Pi\left(x^{(t)} + \alpha_t d(\nabla_x \ell(x^{(t)}))\right)

    where d is the gradient's sign (``"linf"``) or its direction (``"l2"``).

    Differs from the paper: every point on the way counts, not the last one alone.

    Args:
        epsilon: See `Ball`.
        norm: See `Ball`.
        num_steps: 20 in the density paper.
        step_size: In input units, see `step_lengths`; None is ``2.5 * epsilon / num_steps`` if
            steps are equal. In 20 steps the density paper's 0.01 gets no further than 0.2 from
            where it starts, so that not all of a ball of more than 0.1 is in reach.
        schedule: See `step_lengths`.
        random_start: Begin at a point drawn from the ball, or else at the sample.
        num_restarts: See `OutputAttack`; more than one needs ``random_start``.
        valid_range: See `Ball`.
        seed: See `OutputAttack`.
        max_rows: See `OutputAttack`.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> found = PGD(epsilon=0.1)(model, torch.rand(3, 2), torch.tensor([0, 1, 1]))
        >>> found.x.shape, found.fooled.shape
        (torch.Size([3, 2]), torch.Size([3]))

    References:
        madry2018towards
    """

    def __init__(
        self,
        *,
        epsilon: float,
        norm: BallNorm = "linf",
        num_steps: int = 20,
        step_size: float | None = None,
        schedule: StepSchedule = "constant",
        random_start: bool = True,
        num_restarts: int = 1,
        valid_range: tuple[float, float] | None = (0.0, 1.0),
        seed: int = 0,
        max_rows: int | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            norm=norm,
            num_restarts=num_restarts,
            valid_range=valid_range,
            seed=seed,
            max_rows=max_rows,
        )
        self.num_steps = check_integer("num_steps", num_steps)
        self.step_size = None if step_size is None else positive_float("step_size", step_size)
        self.schedule = check_choice("schedule", schedule, SCHEDULES)
        self.random_start = check_flag("random_start", random_start)
        if not random_start:
            check_integer("num_restarts", num_restarts, high=1)  # all would be the same

    def search(
        self, model: nn.Module, x: Tensor, y: Tensor, *, index: Tensor, run: int
    ) -> Attacked:
        """See `OutputAttack.search`."""
        ball, record = self.ball, Record(x)
        rows = torch.arange(len(x), device=x.device)
        point = ball.drawn(x, index=index, seed=self.seed + run) if self.random_start else x
        for length in step_lengths(
            ball.epsilon, self.num_steps, step_size=self.step_size, schedule=self.schedule
        ):
            logits, _, slope = climb_slope(model, point, y[rows], cross_entropy)
            standing = ~record.see(rows, point, logits, y[rows])
            rows, point, slope = rows[standing], point[standing], slope[standing]
            if not len(rows):
                return record.result()
            point = ball.projected(point + length * ball.direction(slope), x[rows])
        record.see(rows, point, deployed_logits(model, point, y[rows]), y[rows])
        return record.result()


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
