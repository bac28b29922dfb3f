"""The training loop; every fit runs through it."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from torch import Tensor, nn

from rightreasons.core.files import save_weights, writable_folder
from rightreasons.core.model_modes import translate_autograd_errors
from rightreasons.datasets import Dataset, as_dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives import Loss, Objective, Term
from rightreasons.probe.probe import move_to_model
from rightreasons.training.diagnosis import Diagnosis, diagnose_training, inspect_masks
from rightreasons.training.distributed import Interrupts, agree, hold, launch_fabric, seeded
from rightreasons.training.evaluate import evaluate
from rightreasons.training.examination import MaskFacts
from rightreasons.training.monitor import (
    Log,
    TrainingLog,
    check_gradient_norm,
    check_log,
    refuse_non_finite_loss,
    watch_gradients,
)
from rightreasons.training.preparation import (
    check_selection,
    freeze_parameters,
    prepare,
    rest_frozen_layers,
)
from rightreasons.training.schedule import Microbatch
from rightreasons.training.settings import (
    DEFAULTS,
    SELECTIONS,
    OptimizerLike,
    SchedulerLike,
    Selection,
    TrainingSettings,
)
from rightreasons.training.state import Training
from rightreasons.types import Batch

__all__ = ["Fit", "Selection", "fit"]

logger = logging.getLogger("rightreasons")


@dataclass(frozen=True)
class Fit:
    """The result of a fit; the model itself was trained in place.

    Args:
        history: One row per epoch, as in ``log.jsonl``.
        weights: The objective's weights at the end, automatic ones too.
        selection: What the kept weights were chosen by, when, and its value.
        diagnosis: Whether the model fits the training data, whether it still reads what masks
            cover, and what to try.
        seconds: Time spent training, over all resumptions.
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
    batch_size: int | None = DEFAULTS.batch_size,
    lr: float = DEFAULTS.lr,
    optimizer: OptimizerLike = DEFAULTS.optimizer,
    scheduler: SchedulerLike = DEFAULTS.scheduler,
    momentum: float = DEFAULTS.momentum,
    weight_decay: float | None = DEFAULTS.weight_decay,
    step_epochs: int | None = DEFAULTS.step_epochs,
    milestones: str | None = DEFAULTS.milestones,
    step_factor: float = DEFAULTS.step_factor,
    freeze: str | None = DEFAULTS.freeze,
    body_lr: float | None = DEFAULTS.body_lr,
    seed: int = DEFAULTS.seed,
    clip: float | None = DEFAULTS.clip,
    accumulate: int = DEFAULTS.accumulate,
    select: Selection = DEFAULTS.select,
    out: str | Path | None = None,
    resume: bool = False,
    checkpoint_seconds: float = 60.0,
    progress: bool | None = None,
    tensorboard: bool = False,
    log: Log | None = None,
    precision: str = DEFAULTS.precision,
    compile: bool = DEFAULTS.compile,
    accelerator: str = DEFAULTS.accelerator,
    devices: int = DEFAULTS.devices,
    fabric: Fabric | None = None,
) -> Fit:
    """Train ``model`` in place, and leave it in test mode.

    Results depend on the seed and the settings. The versions of the libraries and the numbers of
    threads and processes change them by rounding, and processes also through layers that mix or
    drop samples. Where all these are the same, a training on the CPU that was killed and resumed
    gives the same bits; resuming with other versions or threads is logged.

    Args:
        model: Gives logits ``(N, K)``. It is put in train mode if it is in test mode. If it is in
            train mode, layers in test mode stay so.
        objective: What to minimise, from `rightreasons.recipes` or a sum of terms. The fit works
            on a copy; what its terms learn is in the checkpoint.
        data: Training data.
        epochs: Passes over the data.
        validation: Data to measure after each epoch.
        batch_size: Samples in a batch, over all processes; None is 32 to 128, by their number.
        lr: Learning rate, if ``optimizer`` is a name.
        optimizer: ``"adam"``, ``"adamw"``, ``"sgd"``, or a function of the parameters.
        scheduler: ``"cosine"``, ``"constant"``, ``"step"``, or a function of the optimizer and the
            number of updates; it is stepped after every update.
        momentum: Momentum of ``"sgd"``.
        weight_decay: Weight decay of a named optimizer; None leaves it to the optimizer: 0.01 for
            ``"adamw"``, 0 for the others.
        step_epochs: Epochs between two steps of the schedule ``"step"``; None is a third of all.
        milestones: Epochs after which ``"step"`` steps, as in ``"100,150"``, in place of
            ``step_epochs``.
        step_factor: What each of these steps multiplies the rate by.
        freeze: Names of parameters that stay as they are, with ``*`` and commas, such as
            ``"backbone.*"``; ``"body"`` is all but the head, the last linear layer. Frozen layers
            are in test mode, so that their BatchNorm statistics stay, too.
        body_lr: Learning rate of all but the head; None is ``lr``.
        seed: Random seed for the order of samples and everything that is drawn.
        clip: Largest norm of the gradient; None does not clip.
        accumulate: Batches per update.
        select: Whether to keep the weights of the epoch that is best on ``validation``, and by
            what; ``"none"`` keeps the last.
        out: Folder for ``checkpoint.pt``, ``log.jsonl`` and ``model.safetensors``; None writes
            nothing.
        resume: Whether to go on from the checkpoint in ``out``, if there is one.
        checkpoint_seconds: Seconds between two checkpoints; the end is always saved.
        progress: Whether to show a live line; None does so on a terminal.
        tensorboard: Whether to write for TensorBoard too.
        log: Function that is called after each epoch as ``log(numbers, step=epoch)``, such as
            ``wandb.log`` or ``mlflow.log_metrics``. ``numbers`` is the row of the history as one
            dict of floats: ``"parts/r3"``, ``"validation/accuracy"``. If it fails, that is logged
            as a warning and the training goes on.
        precision: Numeric precision for Lightning Fabric: ``"32-true"``, ``"bf16-mixed"``, ...
        compile: Whether to compile the steps of ``r3``, alignment, density and input gradients, see
            `CompiledPasses`. The first step then takes up to some minutes. What cannot be
            compiled runs as it is, and a warning says why.
        accelerator: Device for Fabric: ``"cpu"``, ``"cuda"``, ``"auto"``.
        devices: Number of processes to start; ``torchrun`` starts its own.
        fabric: A launched Fabric, in place of precision, accelerator and devices.

    Returns:
        The history, the weights used, the selection and a diagnosis.

    Raises:
        NonFiniteLossError: A term became NaN or infinite; the last good state is saved.
        KeyboardInterrupt: Ctrl-C; the state after the last whole update is saved.
        SystemExit: SIGTERM or SIGHUP, which schedulers send; the same, with exit code 128 plus
            the number of the signal.
    """
    settings = TrainingSettings.from_arguments(locals()).checked()
    data = as_dataset(data, seed=settings.seed)
    settings = settings.for_samples(len(data))
    validation = None if validation is None else as_dataset(validation)
    check_selection(settings.select, validation)
    check_log(log)
    if tensorboard and out is None:
        raise InvalidSettingError("Expected `out` (--out) for TensorBoard's files, but got none.")
    folder = None if out is None else writable_folder(out)
    with hold(folder), freeze_parameters(model, settings, data):
        objective = copy.deepcopy(objective.as_objective())  # a fit begins with what was asked for
        fabric = fabric or launch_fabric(settings.accelerator, settings.devices, settings.precision)
        training = prepare(model, objective, data, validation, settings, fabric, folder)
        monitor = TrainingLog(
            num_updates=settings.known("epochs") * training.schedule.num_updates,
            num_epochs=settings.known("epochs"),
            folder=folder if fabric.is_global_zero else None,
            progress=progress if fabric.is_global_zero else False,
            tensorboard=tensorboard,
            log=log if fabric.is_global_zero else None,
        )
        masks = inspect_masks(data, fabric)
        if not model.training:
            model.train()
        rest_frozen_layers(model, settings)
        with seeded(settings.seed + fabric.global_rank):
            training.restore(resume=resume)
            with monitor, Interrupts() as interrupts:
                _train(training, monitor, interrupts, checkpoint_seconds)
        return _finish(training, masks)


def _train(
    training: Training, log: TrainingLog, interrupts: Interrupts, checkpoint_seconds: float
) -> None:
    progress, schedule, saved = training.progress, training.schedule, time.monotonic()
    log.restart(progress.history)
    for epoch in range(progress.epoch, training.settings.known("epochs")):
        clock = time.monotonic()
        training.objective.begin_epoch(epoch)
        updates = schedule.updates(epoch)[progress.update :]
        rows = [microbatch.rows for update in updates for microbatch in update]
        batches = training.data.at_epoch(epoch).batches(rows)
        for update in updates:
            loss = _update(training, update, batches)
            log.update(epoch * schedule.num_updates + progress.update, epoch, loss)
            progress.seconds += time.monotonic() - clock
            clock = time.monotonic()
            is_due = checkpoint_seconds <= clock - saved
            if _save_if_due(training, interrupts, is_due):
                saved = time.monotonic()
        log.epoch(_finish_epoch(training))
    _save_if_due(training, interrupts, True)  # and stop, if asked while the last epoch was measured


def _save_if_due(training: Training, interrupts: Interrupts, is_due: bool) -> bool:
    """Save the state if that is due or a signal came, which then stops the training."""
    asked, due, ended = agree(training.fabric, interrupts.asked, is_due, interrupts.ended)
    if asked or due:
        training.save()
    if asked:
        logger.warning(training.describe_resumption())
        interrupts.stop(training.describe_resumption(), ended=ended)
    return due


def _update(training: Training, update: list[Microbatch], batches: Iterator[Batch]) -> Loss:
    """Accumulate the gradients of an update's batches, and step the weights once."""
    progress, fabric, wrapped = training.progress, training.fabric, training.wrapped
    # Fabric's own wrapper forbids autograd.grad on its outputs, which a gradient penalty takes.
    forward = wrapped._forward_module
    training.take_snapshot()
    for microbatch in update:
        batch = move_to_model(next(batches), training.model)
        is_last = microbatch is update[-1]
        with translate_autograd_errors(), fabric.no_backward_sync(wrapped, enabled=not is_last):
            with fabric.autocast():
                loss: Loss = training.objective(forward, batch)
            refuse_non_finite_loss(training, loss)
            watch_gradients(training, loss, is_first=microbatch is update[0])
            fabric.backward(microbatch.share * loss.total, inputs=loss.stops)
        if microbatch.share:
            progress.count(loss, batch.y)
    norm = check_gradient_norm(training, batch)
    if training.settings.clip is not None:
        fabric.clip_gradients(wrapped, training.stepper, max_norm=training.settings.clip)
    training.stepper.step()
    training.stepper.zero_grad()
    training.scheduler.step()
    progress.step(norm)
    return loss


def _finish_epoch(training: Training) -> dict[str, Any]:
    """Measure the epoch that is over, keep its weights if they are the best, begin the next."""
    progress, select = training.progress, training.settings.select
    training.share_buffers()
    means = progress.means(training.fabric)
    row: dict[str, Any] = {
        "epoch": progress.epoch + 1,
        "updates": (progress.epoch + 1) * training.schedule.num_updates,
        "lr": _current_rate(training),
        "parts": {n.removeprefix("parts/"): v for n, v in means.items() if n.startswith("parts/")},
        "weights": training.objective.weights,
        "pulls": progress.gradient_norms,
        **{name: means[name] for name in ["accuracy"] if name in means},
        "gradient_norm": means["gradient_norm"],
        "seconds": progress.seconds,
    }
    if training.validation is not None:
        metric, key = SELECTIONS[select] or ("accuracy", "accuracy")
        names = [*dict.fromkeys(["accuracy", metric])]
        measured = evaluate(training.model, training.validation, names)
        row["validation"] = {name: measured[name] for name in dict.fromkeys(["accuracy", key])}
        if select != "none" and measured[key] > progress.best.get("value", -1.0):
            weights = {n: t.detach().cpu().clone() for n, t in training.model.state_dict().items()}
            progress.best = {"epoch": row["epoch"], "value": measured[key], "weights": weights}
    progress.history.append(row)
    progress.next_epoch()
    return row


def _current_rate(training: Training) -> float:
    """The rate now; of the body's parameters alone, that which the head would have."""
    rate = float(training.scheduler.get_last_lr()[0])
    begun = training.optimizer.param_groups[0].get("initial_lr")
    settings = training.settings
    return rate * settings.lr / begun if begun and begun == settings.body_lr else rate


def _finish(training: Training, masks: MaskFacts) -> Fit:
    """Load the selected weights, write them, and say how the fit went."""
    progress, settings, model = training.progress, training.settings, training.model
    model.eval()
    selection: dict[str, Any] = {"used": settings.select, "epoch": settings.epochs}
    last: dict[str, Tensor] = {}
    if progress.best:
        last = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        model.load_state_dict(progress.best["weights"])
        selection |= {"epoch": progress.best["epoch"], "value": progress.best["value"]}
    if training.folder is not None and training.fabric.is_global_zero:
        save_weights(training.folder / "model.safetensors", model)
    weights, diagnosis = training.objective.weights, diagnose_training(training, masks)
    return Fit(progress.history, weights, selection, diagnosis, progress.seconds, last)
