"""The state of a training: the progress, and what a checkpoint holds."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from lightning_fabric import Fabric
from torch import Tensor, distributed, nn, optim

from rightreasons.core.files import (
    describe_changes,
    load_checkpoint,
    numerics,
    refuse_other_model,
    save_checkpoint,
)
from rightreasons.datasets import Dataset
from rightreasons.errors import CheckpointMismatchError, OutputError
from rightreasons.objectives import Loss, Objective
from rightreasons.training.distributed import gather, random_state, restore_random_state
from rightreasons.training.schedule import Schedule
from rightreasons.training.settings import DEFAULTS, TrainingSettings

__all__ = ["Progress", "Training"]

logger = logging.getLogger("rightreasons")


@dataclass
class Progress:
    """How far a training is, and what it has measured on the way.

    Args:
        epoch: Epochs that are over.
        update: Updates of the current epoch that are over.
        sums: Sums over the samples of the current epoch, by name.
        gradient_norms: Weighted gradient norm of each term at the first or the last update of the
            epoch, where penalties are stronger.
        history: One row for each epoch that is over.
        best: Weights, epoch and value of the best epoch, where one is selected.
        seconds: Time spent training, over all resumptions.
    """

    epoch: int = 0
    update: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    gradient_norms: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Read what `state` gave, also from files of earlier versions."""
        values = dict(state)
        return cls(gradient_norms=values.pop("pulls"), **values)

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint; its key ``"pulls"`` is older than the attribute's name."""
        values = dict(vars(self))
        return {"pulls": values.pop("gradient_norms"), **values}

    def count(self, loss: Loss, y: Tensor) -> None:
        """Add one batch to the sums of the epoch."""
        size = len(y)
        self._add("samples", size)
        if loss.logits.shape[1] > 1:  # with a single class every prediction is right
            self._add("correct", int((loss.logits.argmax(dim=1) == y).sum()))
        for name, part in loss.parts.items():
            self._add(f"parts/{name}", float(part.detach()) * size)

    def step(self, gradient_norm: float) -> None:
        """Count an update."""
        self.update += 1
        self._add("gradient_norm", gradient_norm)

    def means(self, fabric: Fabric) -> dict[str, float]:
        """Means over the epoch so far and all processes: parts of the loss and accuracy."""
        sums = self.sums
        if fabric.world_size > 1:
            names = sorted(sums)
            values = torch.tensor([sums[name] for name in names], dtype=torch.float64)
            values = values.to(fabric.device)
            distributed.all_reduce(values)
            sums = dict(zip(names, values.tolist(), strict=True))
            sums["gradient_norm"] /= fabric.world_size
        parts = [name for name in self.sums if name.startswith("parts/")]
        means = {name: sums[name] / sums["samples"] for name in parts}
        if "correct" in sums:
            means["accuracy"] = sums["correct"] / sums["samples"]
        means["gradient_norm"] = sums["gradient_norm"] / max(self.update, 1)
        return means

    def next_epoch(self) -> None:
        """Begin the next epoch."""
        self.epoch += 1
        self.update = 0
        self.sums = {}
        self.gradient_norms = {}

    def _add(self, name: str, value: float) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + value


@dataclass
class Training:
    """Everything the training loop works with.

    Args:
        model: The user's module.
        wrapped: The same module in Fabric's wrapper.
        objective: What is minimised.
        data: Training data.
        validation: Data that are measured after each epoch.
        optimizer: The optimizer itself, whose state is saved.
        stepper: The same optimizer in Fabric's wrapper.
        scheduler: Learning-rate schedule.
        schedule: Order of the samples.
        fabric: Processes and devices.
        folder: Where the checkpoint goes; None saves nothing.
        settings: Settings of the training.
        record: What a resumed training must have in common with the saved one.
        progress: How far the training is.
    """

    model: nn.Module
    wrapped: Any
    objective: Objective
    data: Dataset
    validation: Dataset | None
    optimizer: optim.Optimizer
    stepper: Any
    scheduler: optim.lr_scheduler.LRScheduler
    schedule: Schedule
    fabric: Fabric
    folder: Path | None
    settings: TrainingSettings
    record: dict[str, Any]
    progress: Progress = field(default_factory=Progress)
    _snapshot: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Few objectives have a state, and copying one at each update costs as much as a small
        # net's optimizer step.
        self._objective_has_state = bool(self.objective.state_dict())

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters that are trained."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    @property
    def checkpoint(self) -> Path | None:
        """Where the state is saved, if anywhere."""
        return None if self.folder is None else self.folder / "checkpoint.pt"

    def save(self) -> None:
        """Write the checkpoint, whole or not at all; all processes take part."""
        if self.checkpoint is None:
            return
        of_this_process = {"random": random_state(), "sums": self.progress.sums}
        processes = gather(self.fabric, of_this_process)
        if self.fabric.is_global_zero:
            modules = {name: module.state_dict() for name, module in self._modules().items()}
            values = {
                "position": self.progress.state(),
                "processes": processes,
                "numerics": numerics(),
            }
            save_checkpoint(self.checkpoint, {**modules, **values, "settings": self.record})

    def restore(self, *, resume: bool) -> None:
        """Load the checkpoint in the folder, if there is one; refuse it unless ``resume``."""
        if self.checkpoint is None or not self.checkpoint.exists():
            return
        if not resume:
            raise OutputError(
                f"Expected a folder without a run, but {self.folder} holds one. Go on with it by "
                "resume=True (--resume), or choose another folder (--out)."
            )
        saved = load_checkpoint(self.checkpoint)
        missing = {"model", "position", "processes", "settings"} - set(saved)
        if missing:
            raise CheckpointMismatchError(
                f"Expected a checkpoint of rightreasons at {self.checkpoint}, but it has no "
                f"{', '.join(sorted(missing))}."
            )
        refuse_other_model(saved["model"], self.model, self.checkpoint)
        try:
            self._load(saved)
        except CheckpointMismatchError:
            raise
        except Exception as error:  # the content of a file may raise anything
            raise CheckpointMismatchError(
                f"Expected a checkpoint of rightreasons at {self.checkpoint}, but it is damaged "
                f"({type(error).__name__}: {error}). Use another folder (--out)."
            ) from error

    def describe_resumption(self) -> str:
        """Say where the state is saved, and how a training goes on from it."""
        if self.checkpoint is None:
            return "Stopped. Nothing was saved: this fit has no folder for checkpoints (`out`)."
        saved = f"The state is saved in {self.checkpoint}"
        return f"Stopped. {saved}; go on with resume=True (--resume)."

    def _load(self, saved: dict[str, Any]) -> None:
        self._refuse_other_settings(saved["settings"])
        changes = describe_changes(saved.get("numerics", {}), numerics())
        if changes and self.fabric.is_global_zero:
            logger.warning(
                "Resuming where numbers are rounded differently: %s. The results will differ a "
                "little from those of a training without a break.",
                changes,
            )
        for name, module in self._modules().items():
            module.load_state_dict(saved[name])
        self.progress = Progress.from_state(saved["position"])
        processes, rank = saved["processes"], self.fabric.global_rank
        if len(processes) == self.fabric.world_size:
            self.progress.sums = processes[rank]["sums"]
        else:
            self.progress.sums = _add_up([each["sums"] for each in processes], keep=rank == 0)
        restore_random_state(processes[rank % len(processes)]["random"])

    def take_snapshot(self) -> None:
        """Copy what the passes of an update change before the weights, for `undo_passes`."""
        self._snapshot = {
            "buffers": [buffer.clone() for buffer in self.model.buffers()],
            "random": random_state(),
            "sums": dict(self.progress.sums),
        }
        if self._objective_has_state:
            self._snapshot["objective"] = copy.deepcopy(self.objective.state_dict())

    def undo_passes(self) -> None:
        """Restore the snapshot, so that a pass with NaN leaves no trace in what is saved."""
        with torch.no_grad():
            for buffer, before in zip(self.model.buffers(), self._snapshot["buffers"], strict=True):
                buffer.copy_(before)
        if self._objective_has_state:
            self.objective.load_state_dict(self._snapshot["objective"])
        self.progress.sums = self._snapshot["sums"]
        restore_random_state(self._snapshot["random"])

    def share_buffers(self) -> None:
        """Give every process the first one's statistics, which DDP does only before a pass."""
        if self.fabric.world_size > 1:
            for buffer in self.model.buffers():
                distributed.broadcast(buffer, 0)

    def _refuse_other_settings(self, saved: dict[str, Any]) -> None:
        differences = [
            f"{name} {saved.get(name)!r}, now {value!r}"
            for name, value in self.record.items()
            if saved.get(name, getattr(DEFAULTS, name, None)) != value  # older ones have fewer
        ]
        if differences:
            raise CheckpointMismatchError(
                f"Expected to resume with the settings of {self.checkpoint}, but they differ: "
                f"{', '.join(differences)}. Use the same settings, or another folder (--out)."
            )

    def _modules(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "objective": self.objective,
        }


def _add_up(sums: list[dict[str, float]], *, keep: bool) -> dict[str, float]:
    """Add the sums of several processes; only the process that keeps them counts them."""
    return {name: sum(each[name] for each in sums) if keep else 0.0 for name in sums[0]}
