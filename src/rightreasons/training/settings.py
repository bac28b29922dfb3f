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
from rightreasons.training.rates import SCHEDULERS, read_milestones

__all__ = [
    "DEFAULTS",
    "LATER",
    "OPTIMIZERS",
    "SCHEDULERS",
    "SELECTIONS",
    "OptimizerLike",
    "Parameters",
    "SchedulerLike",
    "Selection",
    "TrainingSettings",
    "make_optimizer",
    "setting",
]

Parameters = list[Tensor] | list[dict[str, Any]]
"""Parameters, or groups of them with rates of their own."""
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
FLOATS = ("lr", "clip", "momentum", "weight_decay", "step_factor", "body_lr")
LATER = (
    "momentum",
    "weight_decay",
    "step_epochs",
    "milestones",
    "step_factor",
    "freeze",
    "body_lr",
    "compile",
)
"""Settings that results name only where they were changed: older results do not have them."""
BATCHES, SMALLEST_BATCH, LARGEST_BATCH = 32, 32, 128
UPDATES, FEWEST_EPOCHS, MOST_EPOCHS = 1000, 10, 100

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
        >>> chosen = TrainingSettings(epochs=3).for_samples(1000)
        >>> chosen.epochs, chosen.batch_size
        (3, 32)
    """

    epochs: int | None = setting(
        None,
        "Passes over the data; if not given 10, or as many as make 1,000 updates (100 at most).",
    )
    batch_size: int | None = setting(
        None, "Samples in a batch, over all processes; from 32 to 128 by their number if not given."
    )
    lr: float = setting(1e-3, "Learning rate.")
    optimizer: OptimizerLike = setting("adam", "Optimizer: adam, adamw or sgd.")
    scheduler: SchedulerLike = setting(
        "cosine", "Learning-rate schedule: cosine, constant or step."
    )
    momentum: float = setting(0.9, "Momentum of sgd.")
    weight_decay: float | None = setting(
        None, "Weight decay of the optimizer; if not given 0.01 for adamw, 0 for the others."
    )
    step_epochs: int | None = setting(
        None, "Epochs between two steps of the schedule step; a third of all if not given."
    )
    milestones: str | None = setting(
        None, "Epochs after which the schedule step steps, with commas, in place of --step-epochs."
    )
    step_factor: float = setting(0.1, "What each of these steps multiplies the rate by.")
    freeze: str | None = setting(
        None, "Parameters that stay as they are, with * and commas; body is all but the head."
    )
    body_lr: float | None = setting(None, "Learning rate of all but the head, the last layer.")
    seed: int = setting(0, "Random seed for data, initial weights and order of samples.")
    clip: float | None = setting(None, "Largest norm of the gradient.")
    accumulate: int = setting(1, "Batches per update.")
    select: Selection = setting(
        "none", "Epoch to keep: none (last), accuracy, swap_accuracy, worst_group."
    )
    precision: str = setting("32-true", "Numeric precision: 32-true, bf16-mixed, ...")
    compile: bool = setting(
        False, "Compile steps of recipes that can be compiled; others run as they are."
    )
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

    def for_samples(self, num_samples: int) -> Self:
        """The same settings, with those that are None chosen by the number of training samples.

        A batch is about a 32nd of the data, as a power of two from 32 to 128. There are 10 epochs,
        or as many as make 1,000 updates, 100 at most: 1,000 images get 32 epochs of 32 updates.

        Args:
            num_samples: Number of training samples.
        """
        batch_size = self.batch_size
        if batch_size is None:
            nearest = 2 ** round(math.log2(max(1, num_samples) / BATCHES))
            batch_size = min(max(nearest, SMALLEST_BATCH), LARGEST_BATCH)
        epochs = self.epochs
        if epochs is None:
            updates = max(1, math.ceil(num_samples / (batch_size * self.accumulate)))
            epochs = min(max(math.ceil(UPDATES / updates), FEWEST_EPOCHS), MOST_EPOCHS)
        return replace(self, batch_size=batch_size, epochs=epochs)

    def known(self, name: Literal["epochs", "batch_size"]) -> int:
        """The value of a setting that must have been chosen, by a user or `for_samples`."""
        value: int | None = getattr(self, name)
        if value is None:
            raise InvalidSettingError(f"Expected `{name}` as a number, but got None. Set one.")
        return value

    def checked(self) -> Self:
        """The same settings as plain Python numbers, which a checkpoint can hold.

        Raises:
            InvalidSettingError: A setting is out of its range.
        """
        plain = replace(self, **plain_values(self.to_arguments()))
        plain = replace(plain, **check_types(plain))
        floats: dict[str, Any] = {
            name: None if value is None else float(value)
            for name, value in ((name, getattr(plain, name)) for name in FLOATS)
        }
        plain = replace(plain, **floats)
        for name in ("epochs", "batch_size", "accumulate", "step_epochs"):
            value = getattr(plain, name)
            if value is None:
                continue
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
        for name in FLOATS:
            value, may_be_zero = getattr(plain, name), name in ("momentum", "weight_decay")
            if value is not None and not (value > 0 or (may_be_zero and value == 0)):
                raise InvalidSettingError(
                    f"Expected `{name}` {'from' if may_be_zero else 'above'} 0, but got {value}. "
                    f"Set a larger one (--{name.replace('_', '-')})."
                )
        plain._refuse_unused()
        if plain.milestones is not None:
            read_milestones(plain.milestones)
            if plain.step_epochs is not None:
                raise InvalidSettingError(
                    f"Expected `step_epochs` or `milestones`, but got {plain.step_epochs} and "
                    f"{plain.milestones}. Leave one of them out."
                )
        if plain.select not in SELECTIONS:
            raise InvalidSettingError(
                f"Expected `select` to be one of {tuple(SELECTIONS)}, but got {plain.select!r}. "
                "Set one of them (--select)."
            )
        return plain

    def _refuse_unused(self) -> None:
        """Raise for settings that the optimizer or the schedule would not read."""
        optimizer, scheduler = self.optimizer, self.scheduler
        is_named = isinstance(optimizer, str)
        unused = {
            "momentum": (self.momentum != DEFAULTS.momentum and optimizer != "sgd", "sgd"),
            "weight_decay": (self.weight_decay is not None and not is_named, "a named optimizer"),
            "body_lr": (self.body_lr is not None and not is_named, "a named optimizer"),
            "step_epochs": (self.step_epochs is not None and scheduler != "step", "step"),
            "milestones": (self.milestones is not None and scheduler != "step", "step"),
            "step_factor": (
                self.step_factor != DEFAULTS.step_factor and scheduler != "step",
                "step",
            ),
        }
        for name, (is_unused, needed) in unused.items():
            if is_unused:
                kind = "scheduler" if needed == "step" else "optimizer"
                raise InvalidSettingError(
                    f"Expected `{kind}` to be {needed} beside `{name}`, but got "
                    f"{getattr(self, kind)!r}. Leave `{name}` out, or change --{kind}."
                )


DEFAULTS = TrainingSettings()


def adam(
    parameters: Parameters, *, lr: float, weight_decay: float | None = None
) -> optim.Optimizer:
    """Adam with PyTorch's defaults."""
    return optim.Adam(parameters, lr=lr, weight_decay=weight_decay or 0.0)


def adamw(
    parameters: Parameters, *, lr: float, weight_decay: float | None = None
) -> optim.Optimizer:
    """Adam with decoupled weight decay of 0.01."""
    decay = 0.01 if weight_decay is None else weight_decay
    return optim.AdamW(parameters, lr=lr, weight_decay=decay)


def sgd(
    parameters: Parameters, *, lr: float, weight_decay: float | None = None, momentum: float = 0.9
) -> optim.Optimizer:
    """Gradient descent with momentum 0.9."""
    decay = weight_decay or 0.0
    return optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=decay)


OPTIMIZERS: Registry[optim.Optimizer] = Registry(
    "optimizer", {"adam": adam, "adamw": adamw, "sgd": sgd}
)


def make_optimizer(
    parameters: Parameters, settings: TrainingSettings, *, num_updates: int
) -> tuple[optim.Optimizer, optim.lr_scheduler.LRScheduler]:
    """Create the optimizer of ``parameters`` and its schedule over ``num_updates``."""
    if not parameters:
        raise InvalidSettingError(
            "Expected a model with parameters to train, but all of them are frozen. "
            "Use model.requires_grad_(), or freeze fewer (--freeze)."
        )
    if isinstance(settings.optimizer, str):
        decay: dict[str, Any] = {"weight_decay": settings.weight_decay}
        more = {"momentum": settings.momentum} if settings.optimizer == "sgd" else {}
        optimizer = OPTIMIZERS.create(
            settings.optimizer, parameters, lr=settings.lr, **decay, **more
        )
    else:
        optimizer = settings.optimizer(parameters)  # type: ignore[arg-type]
    name_or_function = settings.scheduler
    steps: dict[str, Any] = {}
    if name_or_function == "step":
        all_epochs = settings.known("epochs")
        epochs = settings.step_epochs or math.ceil(all_epochs / 3)
        steps = {"every": epochs / all_epochs, "factor": settings.step_factor}
        if settings.milestones is not None:
            steps["at"] = [epoch / all_epochs for epoch in read_milestones(settings.milestones)]
    make_scheduler: Callable[..., optim.lr_scheduler.LRScheduler] = (
        SCHEDULERS[name_or_function] if isinstance(name_or_function, str) else name_or_function
    )
    scheduler = make_scheduler(optimizer, max(num_updates, 1), **steps)
    if isinstance(optimizer, optim.LBFGS) or isinstance(
        scheduler, optim.lr_scheduler.ReduceLROnPlateau
    ):
        raise InvalidSettingError(
            f"Expected an optimizer and a scheduler whose `step` needs no argument, but got "
            f"{type(optimizer).__name__} and {type(scheduler).__name__}. Use others, or a loop of "
            "your own."
        )
    return optimizer, scheduler
