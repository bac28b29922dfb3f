"""Projected gradient descent, and its form of one step, FGSM."""

from __future__ import annotations

import math
from typing import Literal, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.attacks.ball import Ball, BallNorm
from rightreasons.attacks.output_attack import (
    Attacked,
    OutputAttack,
    Record,
    climb_slope,
    cross_entropy,
    logits_at_test_time,
)
from rightreasons.core.checks import check_choice, check_flag, check_integer, positive_float

__all__ = ["FGSM", "PGD", "StepSchedule", "step_lengths"]

StepSchedule = Literal["constant", "cosine", "halving"]
SCHEDULES: tuple[StepSchedule, ...] = ("constant", "cosine", "halving")


@final
class PGD(OutputAttack):
    r"""Projected gradient ascent of the loss.

    .. math:: x^{(t+1)} = \Pi\left(x^{(t)} + \alpha_t d(\nabla_x \ell(x^{(t)}))\right)

    where d is the gradient's sign (``"linf"``) or its direction (``"l2"``).

    Differs from the paper: every point on the way counts, not only the last one.

    Args:
        epsilon: The ball's radius, in input units.
        norm: The ball's norm, ``"linf"`` or ``"l2"``.
        num_steps: Number of steps; 20 in the density paper.
        step_size: Length of the first step, in input units. None is ``2.5 * epsilon / num_steps``
            if steps are equal. With the density paper's 0.01, 20 steps end at most 0.2 from their
            start, so that they cannot reach all of a ball with a radius above 0.1.
        schedule: How the steps' length changes: ``"constant"``, ``"cosine"`` or ``"halving"``, see
            `step_lengths`.
        random_start: Whether to begin at a point drawn from the ball, or at the sample.
        num_restarts: Number of searches for each sample that is not fooled yet; more than one
            needs ``random_start``.
        valid_range: Smallest and largest value of a feature; None is no limit.
        seed: Random seed for the draws.
        max_rows: The most samples that are attacked at once; None fits a memory budget.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> result = PGD(epsilon=0.1)(model, torch.rand(3, 2), torch.tensor([0, 1, 1]))
        >>> result.x.shape, result.fooled.shape
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
        ball = Ball(epsilon=epsilon, norm=norm, valid_range=valid_range)
        super().__init__(ball, num_restarts=num_restarts, seed=seed, max_rows=max_rows)
        self.num_steps = check_integer("num_steps", num_steps)
        self.step_size = None if step_size is None else positive_float("step_size", step_size)
        self.schedule = check_choice("schedule", schedule, SCHEDULES)
        self.random_start = check_flag("random_start", random_start)
        if not random_start:
            check_integer("num_restarts", num_restarts, high=1)  # all searches would be the same

    @override
    def search(
        self, model: nn.Module, x: Tensor, y: Tensor, *, index: Tensor, run: int
    ) -> Attacked:
        ball, record = self.ball, Record(x)
        rows = torch.arange(len(x), device=x.device)
        point = ball.draw(x, index=index, seed=self.seed + run) if self.random_start else x
        for length in step_lengths(
            ball.epsilon, self.num_steps, step_size=self.step_size, schedule=self.schedule
        ):
            logits, _, slope = climb_slope(model, point, y[rows], cross_entropy)
            robust = ~record.add(rows, point, logits, y[rows])
            rows, point, slope = rows[robust], point[robust], slope[robust]
            if not len(rows):
                return record.result()
            point = ball.project(point + length * ball.direction(slope), x[rows])
        record.add(rows, point, logits_at_test_time(model, point, y[rows]), y[rows])
        return record.result()


@final
class FGSM(OutputAttack):
    r"""The fast gradient sign method: one step of full length that increases the loss.

    .. math:: x' = \Pi\left(x + \epsilon \, \mathrm{sign}\, \nabla_x \ell(x)\right)

    With ``norm="l2"`` the step is :math:`\epsilon \nabla_x \ell / \lVert \nabla_x \ell \rVert_2`.
    For a linear model with two classes no point of the ball is worse.

    Differs from the paper: nothing known. (The density paper writes the label's logit in place of
    the loss; a step that increases it makes the model more certain of the label, not less.)

    Args:
        epsilon: The ball's radius, in input units.
        norm: The ball's norm, ``"linf"`` or ``"l2"``.
        valid_range: Smallest and largest value of a feature; None is no limit.
        max_rows: The most samples that are attacked at once; None fits a memory budget.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> result = FGSM(epsilon=0.1)(model, torch.rand(3, 2), torch.tensor([0, 1, 1]))
        >>> result.x.shape, result.fooled.shape
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
        ball = Ball(epsilon=epsilon, norm=norm, valid_range=valid_range)
        super().__init__(ball, max_rows=max_rows)

    @override
    def search(
        self, model: nn.Module, x: Tensor, y: Tensor, *, index: Tensor, run: int
    ) -> Attacked:
        del index, run
        _, _, slope = climb_slope(model, x, y, cross_entropy)
        point = self.ball.project(x + self.ball.epsilon * self.ball.direction(slope), x)
        record = Record(x)
        rows = torch.arange(len(x), device=x.device)
        record.add(rows, point, logits_at_test_time(model, point, y), y)
        return record.result()


def step_lengths(
    epsilon: float,
    num_steps: int,
    *,
    step_size: float | None = None,
    schedule: StepSchedule = "constant",
) -> list[float]:
    r"""The length of each step.

    Args:
        epsilon: The ball's radius.
        num_steps: Number of steps.
        step_size: Length of the first step. None gives all steps together :math:`2.5 \epsilon`,
            which reaches every point of the ball from every other.
        schedule: ``"constant"``; ``"cosine"``, times :math:`\frac12 (1 + \cos(\pi t / T))`;
            ``"halving"``, half as long after every quarter of the steps.

    Example:
        >>> step_lengths(0.3, 4, step_size=8.0, schedule="halving")
        [8.0, 4.0, 2.0, 1.0]
        >>> step_lengths(0.5, 5)
        [0.25, 0.25, 0.25, 0.25, 0.25]
    """
    factors = [1.0] * num_steps
    if schedule == "cosine":
        factors = [(1 + math.cos(math.pi * step / num_steps)) / 2 for step in range(num_steps)]
    elif schedule == "halving":
        factors = [0.5 ** (4 * step // num_steps) for step in range(num_steps)]
    first = 2.5 * epsilon / sum(factors) if step_size is None else step_size
    return [first * factor for factor in factors]
