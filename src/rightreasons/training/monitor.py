"""Monitor a training: a live line and log files, errors for NaN, and a diagnosis at the end."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from rich.progress import Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from rightreasons.core.files import not_writable, write_atomically
from rightreasons.core.norms import gradient_norm
from rightreasons.core.progress import live_bar
from rightreasons.errors import MissingExtraError, NonFiniteLossError
from rightreasons.objectives import Loss
from rightreasons.training.distributed import agree, gather
from rightreasons.training.state import Training
from rightreasons.types import Batch

__all__ = [
    "Diagnosis",
    "TrainingLog",
    "check_gradient_norm",
    "diagnose",
    "gradient_norms",
    "refuse_non_finite_loss",
]

logger = logging.getLogger("rightreasons")


class TrainingLog:
    """Shows and writes how a training goes; used as a context.

    Args:
        num_updates: Updates in all epochs together.
        num_epochs: Number of epochs.
        folder: Folder for ``log.jsonl``, one line per epoch; None writes nothing.
        progress: Whether to show a live line; None does so on a terminal only.
        tensorboard: Whether to write for TensorBoard too, under ``folder/tensorboard``.
    """

    def __init__(
        self,
        *,
        num_updates: int,
        num_epochs: int,
        folder: Path | None,
        progress: bool | None,
        tensorboard: bool,
    ) -> None:
        self._num_updates, self._num_epochs = num_updates, num_epochs
        self._path = None if folder is None else folder / "log.jsonl"
        self._writer = _summary_writer(folder) if tensorboard and folder is not None else None
        self._last_refresh = 0.0
        self._bar: Progress | None = None
        if progress is not False:
            parts = TextColumn("{task.fields[parts]}", markup=False)
            bar = live_bar(TimeRemainingColumn(), parts, show=progress)
            self._bar = None if bar.disable else bar

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._task = self._bar.add_task("starting", total=self._num_updates, parts="")
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._writer is not None:
            self._writer.close()

    def restart(self, history: list[dict[str, Any]]) -> None:
        """Write the epochs that are over again, so that no row is there twice after a crash."""
        if self._path is not None:
            text = "".join(json.dumps(row) + "\n" for row in history)
            write_atomically(self._path, lambda file: file.write(text.encode()))

    def update(self, done: int, epoch: int, loss: Loss) -> None:
        """Show the progress and every part of the loss, at most ten times a second."""
        if self._bar is None:
            return
        if time.monotonic() - self._last_refresh < 0.1 and done < self._num_updates:
            return
        self._last_refresh = time.monotonic()
        words = " ".join(f"{name} {part.item():.4g}" for name, part in loss.parts.items())
        name = f"epoch {epoch + 1}/{self._num_epochs}"
        self._bar.update(self._task, completed=done, description=name, parts=words)

    def epoch(self, row: dict[str, Any]) -> None:
        """Write the row of an epoch that is over; without a live line, log about ten rows."""
        if self._path is not None:
            try:
                with self._path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            except OSError as error:
                raise not_writable(self._path, error) from error
        if self._writer is not None:
            for name, value in _scalars(row):
                self._writer.add_scalar(name, value, row["epoch"])
        stride = max(self._num_epochs // 10, 1)
        if self._bar is not None or row["epoch"] % stride:
            return
        parts = " ".join(f"{name} {value:.4g}" for name, value in row["parts"].items())
        accuracy = f", accuracy {row['accuracy']:.4f}" if "accuracy" in row else ""
        logger.info("epoch %d: %s%s, %.1f s", row["epoch"], parts, accuracy, row["seconds"])


@dataclass(frozen=True)
class Diagnosis:
    """Whether a fit succeeded.

    Args:
        learned: Whether the model predicts better than the most frequent class does.
        message: One or two sentences for the user, with the remedy if there is one to offer.
        suspects: Penalties whose gradient was larger than the task's, if it did not learn.
    """

    learned: bool
    message: str
    suspects: tuple[str, ...] = ()


def diagnose(
    accuracy: float,
    labels: Tensor,
    weights: Mapping[str, float],
    task: str,
    norms_by_epoch: list[Mapping[str, float]],
) -> Diagnosis:
    """Judge a finished fit.

    Args:
        accuracy: Accuracy on the training samples, during the last epoch.
        labels: Labels of the training samples.
        weights: Weights of the objective's terms.
        task: Name of the term that is the task, not a penalty.
        norms_by_epoch: The `gradient_norms` at the start of each epoch.
    """
    size = len(labels)
    frequent = float(torch.bincount(labels).max()) / size
    margin = max(0.02, 3 * math.sqrt(frequent * (1 - frequent) / size))
    if frequent == 1:
        return Diagnosis(True, "All training samples are of one class: there is nothing to learn.")
    compared = f"training accuracy {accuracy:.3f}, most frequent class {frequent:.3f}"
    if accuracy > frequent + min(margin, (1 - frequent) / 2):
        return Diagnosis(True, f"The model learned ({compared}).")
    penalties = [name for name in weights if name != task]
    ratios = {
        name: max((_ratio(norms[name], norms[task]) for norms in norms_by_epoch), default=0.0)
        for name in penalties
    }
    suspects = tuple(name for name in penalties if ratios[name] > 1)
    if suspects:
        accusations = "; ".join(
            f"`{name}` (weight {weights[name]:g}) pulled up to {ratios[name]:.3g} times as hard as "
            f"`{task}`"
            for name in suspects
        )
        remedy = 'Lower its weight, or use weight="auto".'
        message = f"The model did not learn ({compared}): {accusations}. {remedy}"
        return Diagnosis(False, message, suspects)
    return Diagnosis(
        False,
        f"The model did not learn ({compared}), and no penalty pulled harder than the task. Try "
        "more epochs, another learning rate or a larger model.",
    )


def gradient_norms(loss: Loss) -> dict[str, float]:
    r"""Weighted gradient norm of each part, :math:`w_t \lVert \nabla_\theta L_t \rVert_2`."""
    return {
        name: loss.weights[name] * gradient_norm(part, loss.parameters, len(loss.logits))
        for name, part in loss.parts.items()
    }


def refuse_non_finite_loss(training: Training, loss: Loss) -> None:
    """Raise if a part of the loss is NaN or infinite, after saving the last good state."""
    (stop,) = agree(training.fabric, not bool(torch.isfinite(loss.total)))
    if not stop:
        return
    bad = [name for name, part in loss.parts.items() if not bool(torch.isfinite(part))]
    bad = sorted({name for names in gather(training.fabric, bad) for name in names})
    training.undo_passes()
    training.save()
    raise _non_finite_error(training, f"the term {_join(bad or list(loss.parts))}")


def check_gradient_norm(training: Training, batch: Batch) -> float:
    """Give the norm of the whole gradient, or raise if it is NaN or infinite.

    The weights have not been stepped yet, so what is saved is the last good state. Loss scaling in
    16-bit training handles infinite gradients itself.
    """
    gradients = [parameter.grad for parameter in training.parameters if parameter.grad is not None]
    norms = [torch.linalg.vector_norm(gradient) for gradient in gradients]
    norm = float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0
    if norm < float("inf") or training.settings.precision.startswith("16"):
        return norm
    training.undo_passes()
    training.save()
    by_term = gradient_norms(training.objective(training.model, batch))
    bad = [name for name, norm in by_term.items() if not norm < float("inf")]
    raise _non_finite_error(training, f"the gradient of {_join(bad or list(by_term))}")


def _non_finite_error(training: Training, what: str) -> NonFiniteLossError:
    progress, path = training.progress, training.checkpoint
    where = f"epoch {progress.epoch + 1}, update {progress.update + 1}"
    saved = f" The last good state is in {path}." if path is not None else ""
    return NonFiniteLossError(
        f"Expected finite numbers, but {what} became NaN or infinite in {where}.{saved} Lower the "
        "learning rate (--lr) or that term's weight, or set `clip` (--clip), and start again."
    )


def _join(names: list[str]) -> str:
    return " + ".join(f"`{name}`" for name in names)


def _ratio(penalty: float, task: float) -> float:
    if task > 0:
        return penalty / task
    return math.inf if penalty > 0 else 0.0


def _scalars(row: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    scalars = []
    for name, value in row.items():
        if isinstance(value, dict):
            scalars += _scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            scalars.append((f"{prefix}{name}", float(value)))
    return scalars


def _summary_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("Writing for TensorBoard", "tensorboard") from error
    return SummaryWriter(folder / "tensorboard")
