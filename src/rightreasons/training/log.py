"""The log of a training: a live line, JSON lines, TensorBoard."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.progress import Progress, TextColumn, TimeRemainingColumn

from rightreasons.core.files import write_atomically
from rightreasons.core.progress import live_bar
from rightreasons.errors import MissingExtraError
from rightreasons.objectives import Loss

__all__ = ["TrainingLog"]

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
            parts = TextColumn("{task.fields[parts]}")
            bar = live_bar(TimeRemainingColumn(), parts, show=progress)
            self._bar = None if bar.disable else bar

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._task = self._bar.add_task("starting", total=self._num_updates, parts="")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
            with self._path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        if self._writer is not None:
            for name, value in _scalars(row):
                self._writer.add_scalar(name, value, row["epoch"])
        stride = max(self._num_epochs // 10, 1)
        if self._bar is not None or row["epoch"] % stride:
            return
        parts = " ".join(f"{name} {value:.4g}" for name, value in row["parts"].items())
        accuracy = f", accuracy {row['accuracy']:.4f}" if "accuracy" in row else ""
        logger.info("epoch %d: %s%s, %.1f s", row["epoch"], parts, accuracy, row["seconds"])


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
