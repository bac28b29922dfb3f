"""What a training needs before its first step: which parameters learn, and how."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from rightreasons.datasets import Dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.models.surgery import last_linear
from rightreasons.objectives import Objective
from rightreasons.objectives.compiled import CompiledPasses
from rightreasons.probe.probe import move_to_model
from rightreasons.training.evaluate import prepare_metrics
from rightreasons.training.schedule import Schedule
from rightreasons.training.settings import (
    SELECTIONS,
    Parameters,
    Selection,
    TrainingSettings,
    make_optimizer,
)
from rightreasons.training.state import Training

__all__ = ["check_selection", "freeze_parameters", "prepare", "rest_frozen_layers"]

BODY = "body"
"""The word for all parameters but those of the head."""


def check_selection(select: Selection, validation: Dataset | None) -> None:
    """Raise, before anything is trained, if weights cannot be selected in this way."""
    chosen = SELECTIONS[select]
    if chosen is None:
        return
    if validation is None:
        raise InvalidSettingError(
            f"Expected `validation` data to select by {select!r}, but got none. Use select='none' "
            "(--select none)."
        )
    prepare_metrics([chosen[0]], validation)
    groups = validation.groups
    if select == "worst_group" and groups is not None and not bool((groups >= 0).any()):
        raise InvalidSettingError(
            "Expected validation samples of known groups to select by 'worst_group', but all are "
            "unknown. Name their groups, or use another selection (--select)."
        )


def prepare(
    model: nn.Module,
    objective: Objective,
    data: Dataset,
    validation: Dataset | None,
    settings: TrainingSettings,
    fabric: Fabric,
    folder: Path | None,
) -> Training:
    """Make the schedule and the optimizer of a training, and wrap the model for its processes."""
    record = settings.to_record() | {
        "samples": len(data),
        "weights": objective.weights_asked_for,
        "frozen_statistics": objective.frozen_statistics,
    }
    schedule = Schedule(
        size=len(data),
        batch_size=settings.known("batch_size"),
        accumulate=settings.accumulate,
        seed=settings.seed,
        rank=fabric.global_rank,
        world_size=fabric.world_size,
        lengths=data.lengths,
    )
    if settings.compile:
        rows = schedule.updates(epoch=0)[0][0].rows
        objective.compiled = CompiledPasses(num_rows=len(rows))
    objective.prepare(data, num_passes=settings.known("epochs") * schedule.num_passes)
    optimizer, scheduler = make_optimizer(
        _parameter_groups(model, settings, data),
        settings,
        num_updates=settings.known("epochs") * schedule.num_updates,
    )
    record |= {"optimizer": type(optimizer).__name__, "scheduler": type(scheduler).__name__}
    wrapped, stepper = fabric.setup(model, optimizer)
    return Training(
        model=model,
        wrapped=wrapped,
        objective=objective.to(fabric.device).train(),
        data=data,
        validation=validation,
        optimizer=optimizer,
        stepper=stepper,
        scheduler=scheduler,
        schedule=schedule,
        fabric=fabric,
        folder=folder,
        settings=settings,
        record=record,
    )


@contextmanager
def freeze_parameters(
    model: nn.Module, settings: TrainingSettings, data: Dataset
) -> Iterator[None]:
    """Keep the named parameters from learning inside the context.

    Args:
        model: The model.
        settings: Settings of a training; ``freeze`` counts.
        data: Data that the model takes, to find its head.
    """
    frozen = _frozen_names(model, settings.freeze, data)
    kept = [(one, one.requires_grad) for name, one in model.named_parameters() if name in frozen]
    for parameter, _ in kept:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter, learns in kept:
            parameter.requires_grad_(learns)


def rest_frozen_layers(model: nn.Module, settings: TrainingSettings) -> None:
    """Put layers whose parameters are all frozen in test mode: their statistics stay."""
    if settings.freeze is None:
        return
    for module in model.modules():
        parameters = list(module.parameters())
        if parameters and not any(parameter.requires_grad for parameter in parameters):
            module.eval()


def _frozen_names(model: nn.Module, patterns: str | None, data: Dataset) -> set[str]:
    if patterns is None:
        return set()
    names = [name for name, _ in model.named_parameters()]
    frozen: set[str] = set()
    for pattern in (part.strip() for part in patterns.split(",")):
        if pattern == BODY:
            found = set(names) - _head_names(model, data)
        else:
            found = {name for name in names if fnmatchcase(name, pattern)}
        if not found:
            known = names if len(names) <= 6 else [*names[:4], "…", names[-1]]
            raise InvalidSettingError(
                f"Expected `freeze` to name parameters of the model, but {pattern!r} names none of "
                f"{', '.join(known)}. Use * for the rest of a name, or the "
                f"word {BODY} for all but the head (--freeze)."
            )
        frozen |= found
    return frozen


def _head_names(model: nn.Module, data: Dataset) -> set[str]:
    """The names of the parameters of the layer that gives the logits."""
    first = move_to_model(data.take(torch.tensor([0])), model)
    head = last_linear(model, first.x, first.inputs)
    inside = {id(parameter) for parameter in head.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) in inside}


def _parameter_groups(model: nn.Module, settings: TrainingSettings, data: Dataset) -> Parameters:
    """The parameters that learn: the head at the full rate first, then the others at theirs."""
    named: dict[str, Tensor] = {n: p for n, p in model.named_parameters() if p.requires_grad}
    if settings.body_lr is None:
        return list(named.values())
    names = _head_names(model, data)
    head = [one for name, one in named.items() if name in names]
    body = [one for name, one in named.items() if name not in names]
    groups = ({"params": head, "lr": settings.lr}, {"params": body, "lr": settings.body_lr})
    return [group for group in groups if group["params"]]
