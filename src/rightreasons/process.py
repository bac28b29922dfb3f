"""The process training runs in: seeds, signals and its siblings."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

import torch
from lightning_fabric import Fabric
from torch import Tensor, distributed

__all__ = [
    "Interrupts",
    "is_main_process",
    "launched_fabric",
    "random_states",
    "restore_random_states",
    "seeded",
]


def is_main_process() -> bool:
    """Whether this process is the one that prints, by what its launcher put in the environment."""
    return int(os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or 0) == 0


def launched_fabric(accelerator: str, devices: int, precision: str) -> Fabric:
    """Start the processes of a fit, or join those ``torchrun`` started."""
    nodes = 1
    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    strategy = "ddp" if devices * nodes > 1 else "auto"
    fabric = Fabric(
        accelerator=accelerator,
        devices=devices,
        num_nodes=nodes,
        precision=precision,  # type: ignore[arg-type]
        strategy=strategy,
    )
    fabric.launch()
    return fabric


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from this seed inside, and as before afterwards."""
    before = torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    torch.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


def random_states(fabric: Fabric) -> list[dict[str, Any]]:
    """The random generators of all processes."""
    own: dict[str, Any] = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        own["cuda"] = torch.cuda.get_rng_state_all()
    if fabric.world_size == 1:
        return [own]
    states: list[dict[str, Any]] = [{} for _ in range(fabric.world_size)]
    distributed.all_gather_object(states, own)
    return states


def restore_random_states(states: list[dict[str, Any]], fabric: Fabric) -> None:
    """Set this process's generators as they were."""
    own = states[fabric.global_rank % len(states)]
    cpu: Tensor = own["cpu"]
    torch.set_rng_state(cpu)
    if "cuda" in own and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(own["cuda"])


class Interrupts:
    """Ctrl-C, taken note of and acted upon between two updates; a second one acts at once."""

    def __init__(self) -> None:
        self._asked = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def asked(self, fabric: Fabric) -> bool:
        """Whether to stop now; the same answer in all processes."""
        if fabric.world_size == 1:
            return self._asked
        total = torch.tensor(float(self._asked), device=fabric.device)
        distributed.all_reduce(total)
        return bool(total > 0)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
