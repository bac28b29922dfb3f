"""Monitor a training: a live line, log files and gradient norms, and errors for NaN."""

from __future__ import annotations

import inspect
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import torch
from rich.progress import Progress, TextColumn, TimeRemainingColumn

from rightreasons.core.files import not_writable, write_atomically
from rightreasons.core.norms import gradient_norm
from rightreasons.core.progress import live_bar
from rightreasons.errors import InvalidSettingError, MissingExtraError, NonFiniteLossError
from rightreasons.objectives import Loss
from rightreasons.training.distributed import agree, gather
from rightreasons.training.state import Training
from rightreasons.types import Batch

__all__ = [
    "Log",
    "TrainingLog",
    "check_gradient_norm",
    "check_log",
    "gradient_norms",
    "keep_stronger",
    "refuse_non_finite_loss",
    "watch_gradients",
]

Log = Callable[..., object]
"""A function ``log(numbers, step=epoch)``, such as ``wandb.log`` or ``mlflow.log_metrics``."""

logger = logging.getLogger("rightreasons")


def check_log(log: Log | None) -> None:
    """Raise for a function that cannot be called as ``log(numbers, step=epoch)``."""
    if log is None:
        return
    try:
        inspect.signature(log).bind({}, step=1)
    except ValueError:  # some built-in functions do not tell their arguments
        return
    except TypeError as error:
        raise InvalidSettingError(
            "Expected `log` to be a function that is called as log(numbers, step=epoch), but got "
            f"{log!r}. Use `lambda numbers, step: ...`."
        ) from error


class TrainingLog:
    """Shows and writes how a training goes; used as a context.

    Args:
        num_updates: Updates in all epochs together.
        num_epochs: Number of epochs.
        folder: Folder for ``log.jsonl``, one line per epoch; None writes nothing.
        progress: Whether to show a live line; None does so on a terminal only.
        tensorboard: Whether to write for TensorBoard too, under ``folder/tensorboard``.
        log: Function that gets all numbers of an epoch, and the epoch; None calls nothing.
    """

    def __init__(
        self,
        *,
        num_updates: int,
        num_epochs: int,
        folder: Path | None,
        progress: bool | None,
        tensorboard: bool,
        log: Log | None = None,
    ) -> None:
        self._log = log
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
            for name, value in _scalars(row).items():
                self._writer.add_scalar(name, value, row["epoch"])
        if self._log is not None:
            try:
                self._log(_scalars(row), step=row["epoch"])
            except Exception as error:  # a lost connection must not cost a training
                logger.warning(
                    "epoch %d: `log` failed, training goes on: %s: %s",
                    row["epoch"],
                    type(error).__name__,
                    error,
                )
        stride = max(self._num_epochs // 10, 1)
        if self._bar is not None or row["epoch"] % stride:
            return
        parts = " ".join(f"{name} {value:.4g}" for name, value in row["parts"].items())
        accuracy = f", accuracy {row['accuracy']:.4f}" if "accuracy" in row else ""
        logger.info("epoch %d: %s%s, %.1f s", row["epoch"], parts, accuracy, row["seconds"])


def gradient_norms(loss: Loss) -> dict[str, float]:
    r"""Weighted gradient norm of each part, :math:`w_t \lVert \nabla_\theta L_t \rVert_2`."""
    return {
        name: loss.weights[name] * gradient_norm(part, loss.parameters, len(loss.logits))
        for name, part in loss.parts.items()
    }


def watch_gradients(training: Training, loss: Loss, *, is_first: bool) -> None:
    """Take the gradient norms at the first and the last update of an epoch.

    Penalties may grow from zero, so the first update alone says little.

    Args:
        training: The training.
        loss: Loss of a batch.
        is_first: Whether it is the first batch of its update.
    """
    progress = training.progress
    if is_first and progress.update in (0, training.schedule.num_updates - 1):
        norms, task = gradient_norms(loss), training.objective.task
        progress.gradient_norms = keep_stronger(progress.gradient_norms, norms, task)


def keep_stronger(kept: dict[str, float], norms: dict[str, float], task: str) -> dict[str, float]:
    """Give the gradient norms of that batch whose penalty is larger beside the task."""

    def strength(one: dict[str, float]) -> float:
        penalty = max((norm for name, norm in one.items() if name != task), default=0.0)
        return penalty / max(one.get(task, 0.0), 1e-30)

    return norms if not kept or strength(norms) > strength(kept) else kept


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


def _scalars(row: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """Every number of a row, those of inner tables as ``table/name``."""
    scalars: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            scalars |= _scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            scalars[f"{prefix}{name}"] = float(value)
    return scalars


def _summary_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("Writing for TensorBoard", "tensorboard") from error
    return SummaryWriter(folder / "tensorboard")
