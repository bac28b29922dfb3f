"""The training loop; there is no other."""

from __future__ import annotations

import copy
import logging
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from rightreasons.core.files import save_weights, writable_folder
from rightreasons.core.second_order import translate_autograd_errors
from rightreasons.datasets import Dataset, as_dataset
from rightreasons.errors import InvalidSettingError, NonFiniteLossError
from rightreasons.objectives import Loss, Objective, Term
from rightreasons.probe.probe import move_to_model
from rightreasons.training.diagnosis import Diagnosis, diagnose, pulls
from rightreasons.training.distributed import Interrupts, agree, gather, launch_fabric, seeded
from rightreasons.training.evaluate import evaluate, prepared_metrics
from rightreasons.training.log import TrainingLog
from rightreasons.training.optimizers import OptimizerLike, SchedulerLike, make_optimizer
from rightreasons.training.state import Schedule, Training
from rightreasons.types import Batch

__all__ = [
    "SELECTIONS",
    "Fit",
    "Selection",
    "finish_epoch",
    "fit",
    "gradient_norm",
    "prepared_selection",
    "refuse_non_finite_loss",
]


def refuse_non_finite_loss(training: Training, loss: Loss) -> None:
    """Raise if a part of the loss is NaN or infinite, after saving the last good state."""
    (stop,) = agree(training.fabric, not bool(torch.isfinite(loss.total)))
    if not stop:
        return
    bad = [name for name, part in loss.parts.items() if not bool(torch.isfinite(part))]
    bad = sorted({name for names in gather(training.fabric, bad) for name in names})
    training.recall()
    training.save()
    raise _error(training, f"the term {_listed(bad or list(loss.parts))}")


def gradient_norm(training: Training, batch: Batch) -> float:
    """The norm of the whole gradient, or an error if it is NaN or infinite.

    The weights have not been stepped yet, so what is saved is the last good state. Loss scaling in
    16-bit training deals with infinite gradients itself.
    """
    gradients = [parameter.grad for parameter in training.parameters if parameter.grad is not None]
    norms = [torch.linalg.vector_norm(gradient) for gradient in gradients]
    norm = float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0
    if norm < float("inf") or str(training.settings["precision"]).startswith("16"):
        return norm
    training.recall()
    training.save()
    again = pulls(training.objective(training.model, batch))
    bad = [name for name, pull in again.items() if not pull < float("inf")]
    raise _error(training, f"the gradient of {_listed(bad or list(again))}")


def _error(training: Training, what: str) -> NonFiniteLossError:
    position = training.position
    where = f"epoch {position.epoch + 1}, update {position.update + 1}"
    path = training.checkpoint
    kept = f" The last good state is in {path}." if path is not None else ""
    return NonFiniteLossError(
        f"Expected finite numbers, but {what} became NaN or infinite in {where}.{kept} Lower the "
        "learning rate or that term's weight, or set `clip`, and start again."
    )


def _listed(names: list[str]) -> str:
    return " + ".join(f"`{name}`" for name in names)


Selection = Literal["none", "accuracy", "swap_accuracy", "worst_group"]
SELECTIONS = {
    "none": None,
    "accuracy": ("accuracy", "accuracy"),
    "swap_accuracy": ("swap_accuracy", "swap_accuracy"),
    "worst_group": ("group_accuracy", "group_accuracy/worst"),
}


def prepared_selection(select: str, validation: Dataset | None) -> None:
    """Raise, before anything is trained, if weights cannot be selected in this way."""
    if select not in SELECTIONS:
        raise InvalidSettingError(
            f"Expected `select` to be one of {tuple(SELECTIONS)}, but got {select!r}."
        )
    chosen = SELECTIONS[select]
    if chosen is not None and validation is None:
        raise InvalidSettingError(
            f"Expected `validation` data to select by {select!r}, but got none."
        )
    if chosen is not None and validation is not None:
        prepared_metrics([chosen[0]], validation)


def finish_epoch(training: Training) -> dict[str, Any]:
    """Measure the epoch that is over, keep its weights if they are the best, begin the next."""
    position, select = training.position, training.settings["select"]
    training.share_buffers()
    means = position.means(training.fabric)
    row: dict[str, Any] = {
        "epoch": position.epoch + 1,
        "updates": (position.epoch + 1) * training.schedule.num_updates,
        "lr": training.scheduler.get_last_lr()[0],
        "parts": {n.removeprefix("parts/"): v for n, v in means.items() if n.startswith("parts/")},
        "weights": training.objective.weights,
        "pulls": position.pulls,
        **{name: means[name] for name in ["accuracy"] if name in means},
        "gradient_norm": means["gradient_norm"],
        "seconds": position.seconds,
    }
    if training.validation is not None:
        metric, key = SELECTIONS[select] or ("accuracy", "accuracy")
        measured = evaluate(
            training.model, training.validation, [*dict.fromkeys(["accuracy", metric])]
        )
        row["validation"] = {name: measured[name] for name in dict.fromkeys(["accuracy", key])}
        if select != "none" and measured[key] > position.best.get("value", -1.0):
            weights = {n: t.detach().cpu().clone() for n, t in training.model.state_dict().items()}
            position.best = {
                "epoch": position.epoch + 1,
                "value": measured[key],
                "weights": weights,
            }
    position.history.append(row)
    position.next_epoch()
    return row


logger = logging.getLogger("rightreasons")


@dataclass(frozen=True)
class Fit:
    """What a fit came to; the model itself was trained in place.

    Args:
        history: One row an epoch, as in ``log.jsonl``.
        weights: The objective's weights as they ended, automatic ones too.
        selection: What the kept weights were chosen by, when, and its value.
        diagnosis: Whether the model learned.
        seconds: Spent training, over all resumptions.
        last: The weights of the last epoch, where those of another were selected; else empty.
    """

    history: list[dict[str, Any]]
    weights: dict[str, float]
    selection: dict[str, Any]
    diagnosis: Diagnosis
    seconds: float
    last: dict[str, Tensor] = field(default_factory=dict, repr=False)


def fit(
    model: nn.Module,
    objective: Objective | Term,
    data: Dataset | Batch,
    *,
    epochs: int,
    validation: Dataset | Batch | None = None,
    batch_size: int = 128,
    lr: float = 1e-3,
    optimizer: OptimizerLike = "adam",
    scheduler: SchedulerLike = "cosine",
    seed: int = 0,
    clip: float | None = None,
    accumulate: int = 1,
    select: Selection = "none",
    out: str | Path | None = None,
    resume: bool = False,
    checkpoint_seconds: float = 60.0,
    progress: bool | None = None,
    tensorboard: bool = False,
    precision: str = "32-true",
    accelerator: str = "auto",
    devices: int = 1,
    fabric: Fabric | None = None,
) -> Fit:
    """Train ``model`` in place, and leave it in test mode.

    Results depend on the seed and the settings alone: not on the number of processes (up to
    rounding; layers that mix or drop samples aside), and on the CPU not on how often training was
    killed and resumed.

    Args:
        model: Gives logits ``(N, K)``. It is put in train mode if it is not; layers of a model in
            train mode that were put in test mode stay in it.
        objective: What to minimise, from `rightreasons.recipes` or a sum of terms. It is copied:
            what its terms learn on the way is in the checkpoint, not in the caller's.
        data: To learn from.
        epochs: Passes over the data.
        validation: Measured after each epoch.
        batch_size: Samples in a batch, over all processes.
        lr: Learning rate, if ``optimizer`` is a name.
        optimizer: ``"adam"``, ``"adamw"``, ``"sgd"``, or a function of the parameters.
        scheduler: ``"cosine"``, ``"constant"``, or a function of the optimizer and the number of
            updates; it is stepped after every update.
        seed: Of the order of samples and of everything drawn.
        clip: Largest norm of the gradient; None does not clip.
        accumulate: Batches to an update.
        select: Whether to keep the weights of the epoch that is best on ``validation``, and by
            what; ``"none"`` keeps the last.
        out: Folder for ``checkpoint.pt``, ``log.jsonl`` and ``model.safetensors``; None writes
            nothing.
        resume: Go on from the checkpoint in ``out``, if there is one.
        checkpoint_seconds: How often to save; the end is saved anyway.
        progress: Whether to show a live line; None does so on a terminal.
        tensorboard: Whether to write for TensorBoard too.
        precision: As Lightning Fabric's: ``"32-true"``, ``"bf16-mixed"``, ...
        accelerator: As Fabric's: ``"cpu"``, ``"cuda"``, ``"auto"``.
        devices: Processes to start; under ``torchrun`` they are its.
        fabric: A launched Fabric to use in place of the last three.

    Returns:
        The history, the weights used, the selection and a diagnosis.

    Raises:
        NonFiniteLossError: A term became NaN or infinite; the last good state is saved.
        KeyboardInterrupt: Ctrl-C; the state after the last whole update is saved.
    """
    objective = copy.deepcopy(objective.as_objective())  # a fit begins with what was asked for
    data = as_dataset(data, seed=seed)
    validation = None if validation is None else as_dataset(validation)
    epochs, batch_size, accumulate = int(epochs), int(batch_size), int(accumulate)
    seed, lr, clip = int(seed), float(lr), None if clip is None else float(clip)
    settings: dict[str, Any] = {
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": lr,
        "seed": seed,
        "clip": clip,
        "accumulate": accumulate,
        "select": select,
        "precision": precision,
        "samples": len(data),
        "weights": objective.weights_asked_for,
        "frozen_statistics": objective.frozen_statistics,
    }
    _refuse_bad_settings(settings)
    prepared_selection(select, validation)
    if tensorboard and out is None:
        raise InvalidSettingError("Expected a folder `out` to write TensorBoard's files to.")
    folder = None if out is None else writable_folder(out)
    fabric = fabric or launch_fabric(accelerator, devices, precision)
    schedule = Schedule(
        size=len(data),
        batch_size=batch_size,
        accumulate=accumulate,
        seed=seed,
        rank=fabric.global_rank,
        world_size=fabric.world_size,
    )
    objective.prepare(data, num_passes=epochs * schedule.num_passes)
    made, decay = make_optimizer(
        optimizer,
        scheduler,
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        lr=lr,
        num_updates=epochs * schedule.num_updates,
    )
    settings |= {"optimizer": type(made).__name__, "scheduler": type(decay).__name__}
    wrapped, stepper = fabric.setup(model, made)
    training = Training(
        model=model,
        wrapped=wrapped,
        objective=objective.to(fabric.device).train(),
        data=data,
        validation=validation,
        optimizer=made,
        stepper=stepper,
        scheduler=decay,
        schedule=schedule,
        fabric=fabric,
        folder=folder,
        settings=settings,
    )
    log = TrainingLog(
        num_updates=epochs * schedule.num_updates,
        num_epochs=epochs,
        folder=folder if fabric.is_global_zero else None,
        progress=progress if fabric.is_global_zero else False,
        tensorboard=tensorboard,
    )
    if not model.training:
        model.train()
    with seeded(seed + fabric.global_rank):
        training.restore(resume=resume)
        with log, Interrupts() as interrupts:
            _train(training, log, interrupts, checkpoint_seconds)
    return _finished(training)


def _train(
    training: Training, log: TrainingLog, interrupts: Interrupts, checkpoint_seconds: float
) -> None:
    position, fabric, schedule = training.position, training.fabric, training.schedule
    wrapped = training.wrapped
    # Fabric's own wrapper forbids autograd.grad on its outputs, which a gradient penalty takes.
    forward = wrapped._forward_module
    clip, saved = training.settings["clip"], time.monotonic()
    log.restart(position.history)
    for epoch in range(position.epoch, training.settings["epochs"]):
        clock = time.monotonic()
        updates = schedule.updates(epoch)[position.update :]
        rows = [micro.rows for update in updates for micro in update]
        batches = training.data.at_epoch(epoch).batches(rows)
        for update in updates:
            training.remember()
            for micro in update:
                batch = move_to_model(next(batches), training.model)
                waits = micro is not update[-1]
                with translate_autograd_errors(), fabric.no_backward_sync(wrapped, enabled=waits):
                    with fabric.autocast():
                        loss = training.objective(forward, batch)
                    refuse_non_finite_loss(training, loss)
                    position.pulls = position.pulls or pulls(loss)
                    fabric.backward(micro.share * loss.total, inputs=loss.stops)
                if micro.share:
                    position.count(loss, batch.y)
            norm = gradient_norm(training, batch)
            if clip is not None:
                fabric.clip_gradients(wrapped, training.stepper, max_norm=clip)
            training.stepper.step()
            training.stepper.zero_grad()
            training.scheduler.step()
            position.step(norm)
            log.update(epoch * schedule.num_updates + position.update, epoch, loss)
            position.seconds += time.monotonic() - clock
            clock = time.monotonic()
            stop, due = agree(fabric, interrupts.asked, checkpoint_seconds <= clock - saved)
            if stop or due:
                training.save()
                saved = time.monotonic()
            if stop:
                logger.warning(_how_to_resume(training))
                raise KeyboardInterrupt(_how_to_resume(training))
        log.epoch(finish_epoch(training))
    training.save()


def _finished(training: Training) -> Fit:
    position, settings = training.position, training.settings
    training.model.eval()
    selection: dict[str, Any] = {"used": settings["select"], "epoch": settings["epochs"]}
    last: dict[str, Tensor] = {}
    if position.best:
        last = {n: t.detach().clone() for n, t in training.model.state_dict().items()}
        training.model.load_state_dict(position.best["weights"])
        selection |= {"epoch": position.best["epoch"], "value": position.best["value"]}
    if training.folder is not None and training.fabric.is_global_zero:
        save_weights(training.folder / "model.safetensors", training.model)
    weights = training.objective.weights
    diagnosis = diagnose(
        position.history[-1].get("accuracy", 0.0),
        training.data.labels,
        weights,
        training.objective.task,
        [row["pulls"] for row in position.history],
    )
    return Fit(position.history, weights, selection, diagnosis, position.seconds, last)


def _refuse_bad_settings(settings: dict[str, Any]) -> None:
    for name in ("epochs", "batch_size", "accumulate"):
        if settings[name] < 1:
            raise InvalidSettingError(f"Expected `{name}` of at least 1, but got {settings[name]}.")
    if settings["clip"] is not None and not settings["clip"] > 0:
        raise InvalidSettingError(f"Expected `clip` above 0, but got {settings['clip']}.")


def _how_to_resume(training: Training) -> str:
    if training.checkpoint is None:
        return "Stopped. Nothing was saved, since no folder was given with `out`."
    return (
        f"Stopped. The state is saved in {training.checkpoint}; go on with resume=True (--resume)."
    )
