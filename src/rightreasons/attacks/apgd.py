"""APGD: projected gradient ascent that halves its step where it makes no progress."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Literal, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.attacks.ball import Ball, BallNorm, per_sample
from rightreasons.attacks.output_attack import (
    Attacked,
    OutputAttack,
    Record,
    climb_slope,
    log_odds,
    logits_at_test_time,
    ranked_rivals,
    targeted_dlr,
)
from rightreasons.core.checks import check_choice, check_integer

__all__ = ["APGD", "checkpoints"]

MOMENTUM = 0.75
ENOUGH_RISES = 0.75
LOSSES: tuple[Literal["cross_entropy", "targeted_dlr"], ...] = ("cross_entropy", "targeted_dlr")


@final
class APGD(OutputAttack):
    r"""Auto-PGD: no step size to choose, momentum, and restarts from the best point.

    .. math:: z^{(t+1)} = \Pi\left(x^{(t)} + \eta_t d(\nabla_x L)\right), \quad
        x^{(t+1)} = \Pi\left(x^{(t)} + \tfrac34 (z^{(t+1)} - x^{(t)})
        + \tfrac14 (x^{(t)} - x^{(t-1)})\right)

    Steps are :math:`2 \epsilon` long at first. At each of the `checkpoints` a sample's step may be
    halved; its search then continues from its best point. That happens if less than three quarters
    of the steps since the last checkpoint increased the loss, or if neither step size nor best
    value have changed. ``"cross_entropy"`` is APGD-CE. ``"targeted_dlr"`` maximises `targeted_dlr`
    towards the likeliest rivals, one after the other. `strongest_of` both is the gradient part of
    AutoAttack.

    Differs from the paper: the first search of each kind begins at the sample. Only further ones
    begin at a point drawn from the ball; the paper draws from its surface. Cross-entropy is
    maximised as its `log_odds`: the same direction in exact arithmetic, and one that still works
    where single precision rounds cross-entropy to zero.

    Args:
        epsilon: The ball's radius, in input units.
        norm: The ball's norm, ``"linf"`` or ``"l2"``.
        loss: What is maximised, ``"cross_entropy"`` or ``"targeted_dlr"``.
        num_steps: Number of steps; 100 in the paper.
        num_rivals: Number of rival classes that ``"targeted_dlr"`` tries; 9 in the paper.
        num_restarts: Number of searches for each sample that is not fooled yet, and each rival.
        valid_range: Smallest and largest value of a feature; None is no limit.
        seed: Random seed for the draws.
        max_rows: The most samples that are attacked at once; None fits a memory budget.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> attack = APGD(epsilon=0.1, num_steps=10)
        >>> result = attack(model, torch.rand(3, 2), torch.tensor([0, 1, 1]))
        >>> result.x.shape, result.fooled.shape
        (torch.Size([3, 2]), torch.Size([3]))

    References:
        croce2020reliable
    """

    def __init__(
        self,
        *,
        epsilon: float,
        norm: BallNorm = "linf",
        loss: Literal["cross_entropy", "targeted_dlr"] = "cross_entropy",
        num_steps: int = 100,
        num_rivals: int = 9,
        num_restarts: int = 1,
        valid_range: tuple[float, float] | None = (0.0, 1.0),
        seed: int = 0,
        max_rows: int | None = None,
    ) -> None:
        ball = Ball(epsilon=epsilon, norm=norm, valid_range=valid_range)
        super().__init__(ball, num_restarts=num_restarts, seed=seed, max_rows=max_rows)
        self.loss = check_choice("loss", loss, LOSSES)
        self.num_steps = check_integer("num_steps", num_steps)
        self.num_rivals = check_integer("num_rivals", num_rivals)

    @override
    def num_runs(self, num_classes: int) -> int:
        return self.num_restarts * self._num_rivals(num_classes)

    @override
    def search(
        self, model: nn.Module, x: Tensor, y: Tensor, *, index: Tensor, run: int
    ) -> Attacked:
        logits = logits_at_test_time(model, x, y)
        restart, rank = divmod(run, self._num_rivals(logits.shape[1]))
        rival = ranked_rivals(logits, y)[:, rank]
        start = self.ball.draw(x, index=index, seed=self.seed + restart) if restart else x
        record = Record(x)
        state = self._start(model, start, y, rival, record)
        checked_steps = checkpoints(self.num_steps)
        last = 0
        for step in range(1, self.num_steps + 1):
            if not len(state.rows):
                break
            state = self._step(model, state, x, y, rival, record, is_first=step == 1)
            if step in checked_steps:
                state, last = _halve_stalled_steps(state, step - last), step
        return record.result()

    def _num_rivals(self, num_classes: int) -> int:
        return min(self.num_rivals, num_classes - 1) if self.loss == "targeted_dlr" else 1

    def _climb_slope(
        self, model: nn.Module, point: Tensor, y: Tensor, rival: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        if self.loss == "cross_entropy":
            return climb_slope(model, point, y, log_odds)  # increases with it and never vanishes
        return climb_slope(model, point, y, partial(targeted_dlr, rival=rival))

    def _start(
        self, model: nn.Module, start: Tensor, y: Tensor, rival: Tensor, record: Record
    ) -> _State:
        logits, value, slope = self._climb_slope(model, start, y, rival)
        rows = torch.arange(len(start), device=start.device)
        fooled = record.add(rows, start, logits, y)
        state = _State(
            rows=rows,
            point=start,
            previous=start,
            value=value,
            slope=slope,
            best=start,
            best_value=value,
            best_slope=slope,
            stride=torch.full_like(value, 2 * self.ball.epsilon),
            rises=torch.zeros_like(rows),
            value_at_checkpoint=value,
            was_halved=torch.zeros_like(fooled),
        )
        return state.select(~fooled)

    def _step(
        self,
        model: nn.Module,
        state: _State,
        x: Tensor,
        y: Tensor,
        rival: Tensor,
        record: Record,
        *,
        is_first: bool,
    ) -> _State:
        rows = state.rows
        point = _next_point(self.ball, state, x[rows], is_first=is_first)
        logits, value, slope = self._climb_slope(model, point, y[rows], rival[rows])
        fooled = record.add(rows, point, logits, y[rows])
        better = value > state.best_value
        better_point = per_sample(better, point)
        moved = replace(
            state,
            point=point,
            previous=state.point,
            value=value,
            slope=slope,
            best=torch.where(better_point, point, state.best),
            best_value=torch.maximum(value, state.best_value),
            best_slope=torch.where(better_point, slope, state.best_slope),
            rises=state.rises + (value > state.value),
        )
        return moved.select(~fooled)


def checkpoints(num_steps: int) -> list[int]:
    """The steps after which the step size is checked.

    Example:
        >>> checkpoints(100)
        [22, 41, 57, 70, 80, 87, 93, 99]
    """
    fractions = [0.0, 0.22]
    while fractions[-1] < 1:
        fractions.append(fractions[-1] + max(fractions[-1] - fractions[-2] - 0.03, 0.06))
    steps = {
        math.ceil(round(fraction * num_steps, 9)) for fraction in fractions[1:] if fraction <= 1
    }
    return sorted(steps)


@dataclass(frozen=True)
class _State:
    """The state of the searches: a row for each sample that is not fooled."""

    rows: Tensor
    point: Tensor
    previous: Tensor
    value: Tensor
    slope: Tensor
    best: Tensor
    best_value: Tensor
    best_slope: Tensor
    stride: Tensor
    rises: Tensor
    value_at_checkpoint: Tensor
    was_halved: Tensor

    def select(self, rows: Tensor) -> _State:
        if bool(rows.all()):
            return self
        return _State(**{part.name: getattr(self, part.name)[rows] for part in fields(self)})


def _next_point(ball: Ball, state: _State, x: Tensor, *, is_first: bool) -> Tensor:
    point = state.point
    ahead = ball.project(point + per_sample(state.stride, x) * ball.direction(state.slope), x)
    if is_first:
        return ahead
    inertia = (1 - MOMENTUM) * (point - state.previous)
    return ball.project(point + MOMENTUM * (ahead - point) + inertia, x)


def _halve_stalled_steps(state: _State, num_steps: int) -> _State:
    """Halve the step of each search that stalled, and continue it from its best point."""
    stalls = state.rises < ENOUGH_RISES * num_steps
    stuck = ~state.was_halved & (state.best_value == state.value_at_checkpoint)
    halved = stalls | stuck
    halved_point = per_sample(halved, state.point)
    return replace(
        state,
        point=torch.where(halved_point, state.best, state.point),
        value=torch.where(halved, state.best_value, state.value),
        slope=torch.where(halved_point, state.best_slope, state.slope),
        stride=torch.where(halved, state.stride / 2, state.stride),
        rises=torch.zeros_like(state.rises),
        value_at_checkpoint=state.best_value,
        was_halved=halved,
    )
