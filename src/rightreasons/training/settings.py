"""Settings of a training: each name, default, help text and check in one place.

Optimizers and learning-rate schedules go by name; any other is given as a function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

from torch import Tensor, optim

from rightreasons.core.checks import Registry, check_types
from rightreasons.core.files import plain_values
from rightreasons.errors import InvalidSettingError

__all__ = [
    "DEFAULTS",
    "OPTIMIZERS",
    "SCHEDULERS",
    "SELECTIONS",
    "OptimizerLike",
    "SchedulerLike",
    "Selection",
    "TrainingSettings",
    "make_optimizer",
    "setting",
]

OptimizerLike = str | Callable[[Iterable[Tensor]], optim.Optimizer]
SchedulerLike = str | Callable[[optim.Optimizer, int], optim.lr_scheduler.LRScheduler]
Selection = Literal["none", "accuracy", "swap_accuracy", "worst_group"]

SELECTIONS = {
    "none": None,
    "accuracy": ("accuracy", "accuracy"),
    "swap_accuracy": ("swap_accuracy", "swap_accuracy"),
    "worst_group": ("group_accuracy", "group_accuracy/worst"),
}
"""The metric of each selection, and the one of its values that is compared."""

LARGEST = 2**31 - 1

MACHINE = ("accelerator", "devices")
"""Settings that say where a training runs, not what it computes."""


def setting(default: Any, text: str) -> Any:
    """A field of a dataclass, with the help text that the command line shows."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The settings that `fit`, `Config`, strategies and the command line share.

    The help text of a field describes it. To add a setting, add a field here and a parameter to
    `fit`: configurations, strategies, results and the command line follow.

    Example:
        >>> TrainingSettings(epochs=3).batch_size
        128
    """

    epochs: int = setting(10, "Passes over the data.")
    batch_size: int = setting(128, "Samples in a batch, over all processes.")
    lr: float = setting(1e-3, "Learning rate.")
    optimizer: OptimizerLike = setting("adam", "Optimizer: adam, adamw or sgd.")
    scheduler: SchedulerLike = setting("cosine", "Learning-rate schedule: cosine or constant.")
    seed: int = setting(0, "Random seed for data, initial weights and order of samples.")
    clip: float | None = setting(None, "Largest norm of the gradient.")
    accumulate: int = setting(1, "Batches per update.")
    select: Selection = setting(
        "none", "Epoch to keep: none (last), accuracy, swap_accuracy, worst_group."
    )
    precision: str = setting("32-true", "Numeric precision: 32-true, bf16-mixed, ...")
    accelerator: str = setting("auto", "Device: cpu, cuda or auto.")
    devices: int = setting(1, "Processes to train with.")

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        """Pick the settings among a function's arguments."""
        return cls(**{entry.name: arguments[entry.name] for entry in fields(cls)})

    def to_arguments(self) -> dict[str, Any]:
        """Keyword arguments for `fit`; fields that a subclass adds are left out."""
        return {entry.name: getattr(self, entry.name) for entry in fields(TrainingSettings)}

    def to_record(self) -> dict[str, Any]:
        """What a checkpoint keeps: every setting but where the training runs."""
        return {name: value for name, value in self.to_arguments().items() if name not in MACHINE}

    def checked(self) -> Self:
        """The same settings as plain Python numbers, which a checkpoint can hold.

        Raises:
            InvalidSettingError: A setting is out of its range.
        """
        plain = replace(self, **plain_values(self.to_arguments()))
        plain = replace(plain, **check_types(plain))
        plain = replace(
            plain, lr=float(plain.lr), clip=None if plain.clip is None else float(plain.clip)
        )
        for name in ("epochs", "batch_size", "accumulate"):
            value = getattr(plain, name)
            if value < 1:
                raise InvalidSettingError(
                    f"Expected `{name}` of at least 1, but got {value}. Set a larger one "
                    f"(--{name.replace('_', '-')})."
                )
            if value > LARGEST:
                raise InvalidSettingError(
                    f"Expected `{name}` of at most {LARGEST}, but got {value}. Set a smaller one "
                    f"(--{name.replace('_', '-')})."
                )
        for name in ("lr", "clip"):
            value = getattr(plain, name)
            if value is not None and not value > 0:
                raise InvalidSettingError(
                    f"Expected `{name}` above 0, but got {value}. Set a larger one (--{name})."
                )
        if plain.select not in SELECTIONS:
            raise InvalidSettingError(
                f"Expected `select` to be one of {tuple(SELECTIONS)}, but got {plain.select!r}. "
                "Set one of them (--select)."
            )
        return plain


DEFAULTS = TrainingSettings()


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
    parameters: list[Tensor], settings: TrainingSettings, *, num_updates: int
) -> tuple[optim.Optimizer, optim.lr_scheduler.LRScheduler]:
    """Create the optimizer of ``parameters`` and its schedule over ``num_updates``."""
    if not parameters:
        raise InvalidSettingError(
            "Expected a model with parameters to train, but all of them are frozen. "
            "Use model.requires_grad_()."
        )
    optimizer = (
        OPTIMIZERS.create(settings.optimizer, parameters, lr=settings.lr)
        if isinstance(settings.optimizer, str)
        else settings.optimizer(parameters)
    )
    name_or_function = settings.scheduler
    make_scheduler = (
        SCHEDULERS[name_or_function] if isinstance(name_or_function, str) else name_or_function
    )
    scheduler = make_scheduler(optimizer, max(num_updates, 1))
    if isinstance(optimizer, optim.LBFGS) or isinstance(
        scheduler, optim.lr_scheduler.ReduceLROnPlateau
    ):
        raise InvalidSettingError(
            f"Expected an optimizer and a scheduler whose `step` needs no argument, but got "
            f"{type(optimizer).__name__} and {type(scheduler).__name__}. Use others, or a loop of "
            "your own."
        )
    return optimizer, scheduler
