"""What a training run shows and writes: a live line, JSON lines, TensorBoard."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rightreasons.core.files import write_atomically
from rightreasons.errors import MissingExtraError
from rightreasons.objectives import Loss

__all__ = ["TrainingLog"]

logger = logging.getLogger("rightreasons")


class TrainingLog:
    """Follows a training run; used as a context.

    Args:
        num_updates: In all epochs.
        num_epochs: To name the current one.
        folder: Where ``log.jsonl`` goes, one line an epoch; None writes nothing.
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
        console = Console(stderr=True)
        self._num_updates, self._num_epochs = num_updates, num_epochs
        self._path = None if folder is None else folder / "log.jsonl"
        self._writer = _summary_writer(folder) if tensorboard and folder is not None else None
        self._last = 0.0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[parts]}"),
            console=console,
            disable=not (
                console.is_terminal or console.is_jupyter if progress is None else progress
            ),
        )
        self._task = self._bar.add_task("starting", total=num_updates, parts="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
        if self._writer is not None:
            self._writer.close()

    def restart(self, history: list[dict[str, Any]]) -> None:
        """Write the epochs that are over anew, so that nothing is there twice after a crash."""
        if self._path is not None:
            text = "".join(json.dumps(row) + "\n" for row in history)
            write_atomically(self._path, lambda file: file.write(text.encode()))

    def update(self, done: int, epoch: int, loss: Loss) -> None:
        """Show how far it is and every part of the loss; at most ten times a second."""
        soon = time.monotonic() - self._last < 0.1 and done < self._num_updates
        if self._bar.disable or soon:
            return
        self._last = time.monotonic()
        words = " ".join(f"{name} {part.item():.4g}" for name, part in loss.parts.items())
        name = f"epoch {epoch + 1}/{self._num_epochs}"
        self._bar.update(self._task, completed=done, description=name, parts=words)

    def epoch(self, row: dict[str, Any]) -> None:
        """Write the line of an epoch that is over; without a live line, log some ten of them."""
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        if self._writer is not None:
            for name, value in _scalars(row):
                self._writer.add_scalar(name, value, row["epoch"])
        few = max(self._num_epochs // 10, 1)
        if not self._bar.disable or row["epoch"] % few:
            return
        parts = " ".join(f"{name} {value:.4g}" for name, value in row["parts"].items())
        accuracy = f", accuracy {row['accuracy']:.4f}" if "accuracy" in row else ""
        logger.info("epoch %d: %s%s, %.1f s", row["epoch"], parts, accuracy, row["seconds"])


def _scalars(row: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found = []
    for name, value in row.items():
        if isinstance(value, dict):
            found += _scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            found.append((f"{prefix}{name}", float(value)))
    return found


def _summary_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("Writing for TensorBoard", "tensorboard") from error
    return SummaryWriter(folder / "tensorboard")
