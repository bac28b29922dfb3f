"""Optimizers and learning-rate schedules by name; any other as a function."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from torch import Tensor, optim

from rightreasons.core.registry import Registry
from rightreasons.errors import InvalidSettingError

__all__ = ["OPTIMIZERS", "SCHEDULERS", "OptimizerLike", "SchedulerLike", "make_optimizer"]

OptimizerLike = str | Callable[[Iterable[Tensor]], optim.Optimizer]
SchedulerLike = str | Callable[[optim.Optimizer, int], optim.lr_scheduler.LRScheduler]


def adam(parameters: Iterable[Tensor], *, lr: float) -> optim.Optimizer:
    """Adam with PyTorch's defaults."""
    return optim.Adam(parameters, lr=lr)


def adamw(parameters: Iterable[Tensor], *, lr: float) -> optim.Optimizer:
    """Adam with decoupled weight decay of 0.01."""
    return optim.AdamW(parameters, lr=lr)


def sgd(parameters: Iterable[Tensor], *, lr: float) -> optim.Optimizer:
    """Gradient descent with momentum 0.9."""
    return optim.SGD(parameters, lr=lr, momentum=0.9)


def cosine(optimizer: optim.Optimizer, num_updates: int) -> optim.lr_scheduler.LRScheduler:
    """From the full rate down to zero along half a cosine."""
    return optim.lr_scheduler.LambdaLR(
        optimizer, lambda update: 0.5 * (1 + math.cos(math.pi * update / num_updates))
    )


def constant(optimizer: optim.Optimizer, num_updates: int) -> optim.lr_scheduler.LRScheduler:
    """The full rate throughout."""
    del num_updates
    return optim.lr_scheduler.LambdaLR(optimizer, lambda update: 1.0)


OPTIMIZERS: Registry[optim.Optimizer] = Registry(
    "optimizer", {"adam": adam, "adamw": adamw, "sgd": sgd}
)
SCHEDULERS: Registry[optim.lr_scheduler.LRScheduler] = Registry(
    "scheduler", {"constant": constant, "cosine": cosine}
)


def make_optimizer(
    optimizer: OptimizerLike,
    scheduler: SchedulerLike,
    parameters: list[Tensor],
    *,
    lr: float,
    num_updates: int,
) -> tuple[optim.Optimizer, optim.lr_scheduler.LRScheduler]:
    """The optimizer of ``parameters`` and its schedule over ``num_updates``."""
    if not lr > 0:
        raise InvalidSettingError(f"Expected `lr` above 0, but got {lr}.")
    if not parameters:
        raise InvalidSettingError(
            "Expected a model with parameters to train, but all of them are frozen. "
            "Use model.requires_grad_()."
        )
    made = (
        OPTIMIZERS.create(optimizer, parameters, lr=lr)
        if isinstance(optimizer, str)
        else optimizer(parameters)
    )
    schedule = SCHEDULERS[scheduler] if isinstance(scheduler, str) else scheduler
    decay = schedule(made, max(num_updates, 1))
    if isinstance(made, optim.LBFGS) or isinstance(decay, optim.lr_scheduler.ReduceLROnPlateau):
        raise InvalidSettingError(
            f"Expected an optimizer and a scheduler whose `step` needs no argument, but got "
            f"{type(made).__name__} and {type(decay).__name__}. Use others, or a loop of your own."
        )
    return made, decay
