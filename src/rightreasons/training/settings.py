"""Settings of a training: each name, default, help text and check in one place.

Optimizers and learning-rate schedules go by name; any other is given as a function.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from types import UnionType
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from torch import Tensor, optim

from rightreasons.core.checks import Registry
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
    "check_types",
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
SEEDS = 2**62
_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a word",
    dict: "settings by name",
    list: "a list of names",
    type(None): "None",
}
OPTIONS = ("a whole number", "a number", "a number or None", "a whole number or None")
"""Types of settings that the command line takes as an option of their own."""

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
        check_types(plain)
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


def check_types(settings: TrainingSettings) -> None:
    """Raise if a setting is of another type than its annotation: 1.5 is no number of epochs."""
    for name, (adapter, words) in _types(type(settings)).items():  # type: ignore[arg-type]
        value = getattr(settings, name)
        try:
            adapter.validate_python(value, strict=True)
        except ValidationError:
            option = f" Set it with --{name.replace('_', '-')}." if words in OPTIONS else ""
            raise InvalidSettingError(
                f"Expected `{name}` to be {words}, but got {reprlib.repr(value)}.{option}"
            ) from None
    if abs(settings.seed) >= SEEDS:
        raise InvalidSettingError(
            f"Expected `seed` below {SEEDS}, but got {settings.seed}. Set a smaller one (--seed)."
        )


@cache
def _types(kind: type) -> dict[str, tuple[TypeAdapter[Any], str]]:
    """What checks each setting of a dataclass, and words for its type."""
    return {
        name: (TypeAdapter(hint), _words(hint))
        for name, hint in get_type_hints(kind).items()
        if hint is not Selection  # whose error lists the choices
    }


def _words(hint: Any) -> str:
    members = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    return " or ".join(_WORDS.get(get_origin(one) or one, "a function") for one in members)


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
