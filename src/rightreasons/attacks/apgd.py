"""APGD: projected ascent that halves its step where it stops getting anywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Literal, final

import torch
from torch import Tensor, nn

from rightreasons.attacks.ball import Ball, BallNorm
from rightreasons.attacks.output_attack import (
    Attacked,
    OutputAttack,
    Record,
    climb_slope,
    deployed_logits,
    log_odds,
    ranked_rivals,
    targeted_dlr,
)
from rightreasons.core.checks import check_choice, check_integer

__all__ = ["APGD", "checkpoints"]

MOMENTUM = 0.75
ENOUGH_RISES = 0.75
LOSSES: tuple[Literal["cross_entropy", "targeted_dlr"], ...] = ("cross_entropy", "targeted_dlr")


def checkpoints(num_steps: int) -> list[int]:
    """After which steps the length of steps is looked at.

    Example:
        >>> checkpoints(100)
        [22, 41, 57, 70, 80, 87, 93, 99]
    """
    shares = [0.0, 0.22]
    while shares[-1] < 1:
        shares.append(shares[-1] + max(shares[-1] - shares[-2] - 0.03, 0.06))
    after = {math.ceil(round(share * num_steps, 9)) for share in shares[1:] if share <= 1}
    return sorted(after)


@final
class APGD(OutputAttack):
    r"""Auto-PGD: no step size to choose, momentum, and the best point to go on from.

    .. math:: z^{(t+1)} = \Pi\left(x^{(t)} + \eta_t d(\nabla_x L)\right), \quad
        x^{(t+1)} = \Pi\left(x^{(t)} + \tfrac34 (z^{(t+1)} - x^{(t)})
        + \tfrac14 (x^{(t)} - x^{(t-1)})\right)

    Steps are :math:`2 \epsilon` long at first. At each of the `checkpoints` a sample's step is
    halved, and its search goes on from its best point, if less than three quarters of the steps
    since the last one rose, or if neither step nor best value have changed. ``"cross_entropy"`` is
    APGD-CE; ``"targeted_dlr"`` climbs `targeted_dlr` towards the likeliest rivals, one after the
    other. `strongest_of` both is the gradient part of AutoAttack.

    Differs from the paper: the first search of each kind begins at the sample, and only further
    ones at a drawn point, which is drawn from the ball and not from its surface. Cross-entropy is
    climbed as its `log_odds`: the same way in exact arithmetic, and one that goes on where single
    precision rounds cross-entropy to zero.

    Args:
        epsilon: See `Ball`.
        norm: See `Ball`.
        loss: What is climbed.
        num_steps: 100 in the paper.
        num_rivals: How many rival classes ``"targeted_dlr"`` tries; 9 in the paper.
        num_restarts: See `OutputAttack`; for each rival.
        valid_range: See `Ball`.
        seed: See `OutputAttack`.
        max_rows: See `OutputAttack`.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> attack = APGD(epsilon=0.1, num_steps=10)
        >>> found = attack(model, torch.rand(3, 2), torch.tensor([0, 1, 1]))
        >>> found.x.shape, found.fooled.shape
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
        super().__init__(
            epsilon=epsilon,
            norm=norm,
            num_restarts=num_restarts,
            valid_range=valid_range,
            seed=seed,
            max_rows=max_rows,
        )
        self.loss = check_choice("loss", loss, LOSSES)
        self.num_steps = check_integer("num_steps", num_steps)
        self.num_rivals = check_integer("num_rivals", num_rivals)

    def num_runs(self, num_classes: int) -> int:
        """See `OutputAttack.num_runs`."""
        return self.num_restarts * self._num_rivals(num_classes)

    def search(
        self, model: nn.Module, x: Tensor, y: Tensor, *, index: Tensor, run: int
    ) -> Attacked:
        """See `OutputAttack.search`."""
        logits = deployed_logits(model, x, y)
        restart, place = divmod(run, self._num_rivals(logits.shape[1]))
        rival = ranked_rivals(logits, y)[:, place]
        start = self.ball.drawn(x, index=index, seed=self.seed + restart) if restart else x
        record = Record(x)
        state = self._started(model, start, y, rival, record)
        after = checkpoints(self.num_steps)
        last = 0
        for step in range(1, self.num_steps + 1):
            if not len(state.rows):
                break
            state = self._stepped(model, state, x, y, rival, record, is_first=step == 1)
            if step in after:
                state, last = _rested(state, step - last), step
        return record.result()

    def _num_rivals(self, num_classes: int) -> int:
        return min(self.num_rivals, num_classes - 1) if self.loss == "targeted_dlr" else 1

    def _read(
        self, model: nn.Module, point: Tensor, y: Tensor, rival: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        if self.loss == "cross_entropy":
            return climb_slope(model, point, y, log_odds)  # which rise with it and never vanish
        return climb_slope(model, point, y, partial(targeted_dlr, rival=rival))

    def _started(
        self, model: nn.Module, start: Tensor, y: Tensor, rival: Tensor, record: Record
    ) -> _State:
        logits, value, slope = self._read(model, start, y, rival)
        rows = torch.arange(len(start), device=start.device)
        fooled = record.see(rows, start, logits, y)
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
            value_then=value,
            was_halved=torch.zeros_like(fooled),
        )
        return state.of(~fooled)

    def _stepped(
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
        point = _moved(self.ball, state, x[rows], is_first=is_first)
        logits, value, slope = self._read(model, point, y[rows], rival[rows])
        fooled = record.see(rows, point, logits, y[rows])
        better = value > state.best_value
        wide = _wide(better, point)
        moved = replace(
            state,
            point=point,
            previous=state.point,
            value=value,
            slope=slope,
            best=torch.where(wide, point, state.best),
            best_value=torch.maximum(value, state.best_value),
            best_slope=torch.where(wide, slope, state.best_slope),
            rises=state.rises + (value > state.value),
        )
        return moved.of(~fooled)


@dataclass(frozen=True)
class _State:
    """Where the searches stand, a row for each sample that is not fooled."""

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
    value_then: Tensor
    was_halved: Tensor

    def of(self, standing: Tensor) -> _State:
        if bool(standing.all()):
            return self
        return _State(**{part.name: getattr(self, part.name)[standing] for part in fields(self)})


def _moved(ball: Ball, state: _State, x: Tensor, *, is_first: bool) -> Tensor:
    point = state.point
    ahead = ball.projected(point + _wide(state.stride, x) * ball.direction(state.slope), x)
    if is_first:
        return ahead
    inertia = (1 - MOMENTUM) * (point - state.previous)
    return ball.projected(point + MOMENTUM * (ahead - point) + inertia, x)


def _rested(state: _State, num_steps: int) -> _State:
    """Halve the steps of searches that stall, and take those back to their best point."""
    stalls = state.rises < ENOUGH_RISES * num_steps
    stuck = ~state.was_halved & (state.best_value == state.value_then)
    halved = stalls | stuck
    wide = _wide(halved, state.point)
    return replace(
        state,
        point=torch.where(wide, state.best, state.point),
        value=torch.where(halved, state.best_value, state.value),
        slope=torch.where(wide, state.best_slope, state.slope),
        stride=torch.where(halved, state.stride / 2, state.stride),
        rises=torch.zeros_like(state.rises),
        value_then=state.best_value,
        was_halved=halved,
    )


def _wide(column: Tensor, like: Tensor) -> Tensor:
    return column.view(-1, *(1,) * (like.ndim - 1))
