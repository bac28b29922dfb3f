"""The state of a training: the order of batches, the progress, and what a checkpoint holds."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning_fabric import Fabric
from torch import Tensor, distributed, nn, optim

from rightreasons.core.files import load_checkpoint, refuse_other_model, save_checkpoint
from rightreasons.datasets import Dataset
from rightreasons.errors import CheckpointMismatchError, OutputError
from rightreasons.objectives import Loss, Objective
from rightreasons.training.distributed import gather, random_state, restore_random_state

__all__ = ["Micro", "Position", "Schedule", "Training"]


class Micro(NamedTuple):
    """One process's part of a batch.

    Args:
        rows: Positions in the data set.
        share: What the mean loss over ``rows`` must be multiplied with, so that the average over
            processes of the sum over an update's batches is the mean over all its samples.
    """

    rows: Tensor
    share: float


class Schedule:
    """The order of an epoch: a permutation by seed and epoch, cut into updates.

    A single sample left over joins the batch before it.

    Args:
        size: Of the data set.
        batch_size: Samples in a batch, over all processes.
        accumulate: Batches to an update.
        seed: Of the order.
        rank: This process.
        world_size: Number of processes.

    Example:
        >>> schedule = Schedule(size=10, batch_size=4, accumulate=1, seed=0, rank=0, world_size=1)
        >>> [len(update[0].rows) for update in schedule.updates(epoch=0)]
        [4, 4, 2]
    """

    def __init__(
        self, size: int, batch_size: int, accumulate: int, seed: int, rank: int, world_size: int
    ) -> None:
        self.size = size
        self.batch_size = batch_size
        self.accumulate = accumulate
        self.seed = seed
        self.rank = rank
        self.world_size = world_size

    @property
    def num_updates(self) -> int:
        """Updates in an epoch."""
        return math.ceil(self.num_passes / self.accumulate)

    @property
    def num_passes(self) -> int:
        """Batches in an epoch."""
        return len(self._batch_sizes())

    def updates(self, epoch: int) -> list[list[Micro]]:
        """This process's part of every update of an epoch."""
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + epoch) % 2**63)
        order = torch.randperm(self.size, generator=generator)
        batches = torch.split(order, self._batch_sizes())
        groups = [
            batches[first : first + self.accumulate]
            for first in range(0, len(batches), self.accumulate)
        ]
        return [[self._part(batch, sum(map(len, group))) for batch in group] for group in groups]

    def _batch_sizes(self) -> list[int]:
        whole, rest = divmod(self.size, self.batch_size)
        sizes = [self.batch_size] * whole + ([rest] if rest else [])
        if rest == 1 and whole:  # BatchNorm cannot normalise one sample by itself
            sizes[-2:] = [self.batch_size + 1]
        return sizes

    def _part(self, batch: Tensor, samples_in_update: int) -> Micro:
        own = batch[self.rank :: self.world_size]
        if not len(own):  # fewer samples than processes: take part in the collective, count nothing
            return Micro(batch[:1], 0.0)
        return Micro(own, self.world_size * len(own) / samples_in_update)


@dataclass
class Position:
    """Where training is, and what it has seen."""

    epoch: int = 0
    update: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    pulls: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def count(self, loss: Loss, y: Tensor) -> None:
        """Add one batch to the sums of the epoch."""
        size = len(y)
        self._add("samples", size)
        if loss.logits.shape[1] > 1:  # of a single class every answer is right
            self._add("correct", int((loss.logits.argmax(dim=1) == y).sum()))
        for name, part in loss.parts.items():
            self._add(f"parts/{name}", float(part.detach()) * size)

    def step(self, gradient_norm: float) -> None:
        """Note that an update was made."""
        self.update += 1
        self._add("gradient_norm", gradient_norm)

    def means(self, fabric: Fabric) -> dict[str, float]:
        """The epoch so far, over all processes: parts of the loss and accuracy."""
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
        self.pulls = {}

    def _add(self, name: str, value: float) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + value


@dataclass
class Training:
    """Everything the loop works with."""

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
    settings: dict[str, Any]
    position: Position = field(default_factory=Position)
    _before: dict[str, Any] = field(default_factory=dict)

    @property
    def parameters(self) -> list[Tensor]:
        """What is trained."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    @property
    def checkpoint(self) -> Path | None:
        """Where the state is saved, if anywhere."""
        return None if self.folder is None else self.folder / "checkpoint.pt"

    def save(self) -> None:
        """Write the checkpoint, whole or not at all; all processes take part."""
        if self.checkpoint is None:
            return
        own = {"random": random_state(), "sums": self.position.sums}
        processes = gather(self.fabric, own)
        if self.fabric.is_global_zero:
            parts = {name: module.state_dict() for name, module in self._modules().items()}
            kept = {"position": vars(self.position), "processes": processes}
            save_checkpoint(self.checkpoint, {**parts, **kept, "settings": self.settings})

    def restore(self, *, resume: bool) -> None:
        """Take up the run in the folder, if there is one and that is wanted."""
        if self.checkpoint is None or not self.checkpoint.exists():
            return
        if not resume:
            raise OutputError(
                f"Expected a folder without a run, but {self.folder} holds one. Go on with it by "
                "resume=True (--resume), or choose another folder."
            )
        saved = load_checkpoint(self.checkpoint)
        missing = {"model", "position", "processes", "settings"} - set(saved)
        if missing:
            raise CheckpointMismatchError(
                f"Expected a checkpoint of rightreasons at {self.checkpoint}, but it has no "
                f"{', '.join(sorted(missing))}."
            )
        refuse_other_model(saved["model"], self.model, self.checkpoint)
        other = {
            name: (saved["settings"].get(name), value)
            for name, value in self.settings.items()
            if saved["settings"].get(name) != value
        }
        if other:
            told = ", ".join(f"{name} {old!r}, now {new!r}" for name, (old, new) in other.items())
            raise CheckpointMismatchError(
                f"Expected to resume with the settings of {self.checkpoint}, but they differ: "
                f"{told}. Use the same settings, or another folder."
            )
        for name, module in self._modules().items():
            module.load_state_dict(saved[name])
        self.position = Position(**saved["position"])
        processes, rank = saved["processes"], self.fabric.global_rank
        if len(processes) == self.fabric.world_size:
            self.position.sums = processes[rank]["sums"]
        else:
            self.position.sums = _added([one["sums"] for one in processes], counts=rank == 0)
        restore_random_state(processes[rank % len(processes)]["random"])

    def remember(self) -> None:
        """Note what a pass moves before the weights do, to take it back if the pass goes wrong."""
        self._before = {
            "buffers": [buffer.clone() for buffer in self.model.buffers()],
            "objective": copy.deepcopy(self.objective.state_dict()),
            "random": random_state(),
            "sums": dict(self.position.sums),
        }

    def recall(self) -> None:
        """Undo the passes since the last update."""
        with torch.no_grad():
            for buffer, before in zip(self.model.buffers(), self._before["buffers"], strict=True):
                buffer.copy_(before)
        self.objective.load_state_dict(self._before["objective"])
        self.position.sums = self._before["sums"]
        restore_random_state(self._before["random"])

    def share_buffers(self) -> None:
        """Give every process the first one's statistics, which DDP does only before a pass."""
        if self.fabric.world_size > 1:
            for buffer in self.model.buffers():
                distributed.broadcast(buffer, 0)

    def _modules(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "objective": self.objective,
        }


def _added(sums: list[dict[str, float]], *, counts: bool) -> dict[str, float]:
    """The sums of several processes in one, and nothing in the others."""
    names = sums[0]
    return {name: sum(one[name] for one in sums) if counts else 0.0 for name in names}
