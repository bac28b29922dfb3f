"""The processes of a training: launching, random states, signals, common decisions."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, Self

import torch
from lightning_fabric import Fabric
from torch import distributed

from rightreasons.core.checks import check_integer
from rightreasons.core.process import read_environment
from rightreasons.errors import InvalidSettingError

__all__ = [
    "Interrupts",
    "agree",
    "gather",
    "launch_fabric",
    "random_state",
    "restore_random_state",
    "seeded",
]


MOST_DEVICES = 4096


def launch_fabric(accelerator: str, devices: int, precision: str) -> Fabric:
    """Start the processes of a fit, or join those ``torchrun`` started."""
    check_integer("devices", devices, high=MOST_DEVICES)
    nodes = 1
    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = max(read_environment("LOCAL_WORLD_SIZE", 1), 1)
        nodes = max(read_environment("WORLD_SIZE", 1) // devices, 1)
    strategy = "ddp" if devices * nodes > 1 else "auto"
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=devices,
            num_nodes=nodes,
            precision=precision,  # type: ignore[arg-type]
            strategy=strategy,
        )
    except (ValueError, RuntimeError, TypeError) as error:
        raise InvalidSettingError(
            "Expected an accelerator, devices and a precision that Lightning Fabric knows, but got "
            f"{accelerator!r}, {devices!r} and {precision!r}: {error}"
        ) from error
    fabric.launch()
    return fabric


def agree(fabric: Fabric, *flags: bool) -> list[bool]:
    """Make each flag true in all processes if it is true in any of them.

    Processes must decide together on what leads to a collective call, such as saving or stopping.
    Clocks, signals and numbers differ between them.
    """
    if fabric.world_size == 1:
        return list(flags)
    votes = torch.tensor([float(flag) for flag in flags], device=fabric.device)
    distributed.all_reduce(votes)
    return [vote > 0 for vote in votes.tolist()]


_generator = threading.RLock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch inside the context, and restore its random state afterwards."""
    with _generator:
        before = torch.get_rng_state()
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        torch.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_rng_state(before)
            if cuda:
                torch.cuda.set_rng_state_all(cuda)


def random_state() -> dict[str, Any]:
    """The states of this process's random generators."""
    state: dict[str, Any] = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def restore_random_state(state: dict[str, Any]) -> None:
    """Restore the states that `random_state` gave."""
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def gather(fabric: Fabric, value: Any) -> list[Any]:
    """Collect the values of all processes, in the order of their ranks."""
    if fabric.world_size == 1:
        return [value]
    values: list[Any] = [None] * fabric.world_size
    distributed.all_gather_object(values, value)
    return values


class Interrupts:
    """Notes Ctrl-C, SIGTERM and SIGHUP, so that training stops between two updates.

    A second signal stops it at once. A signal that somebody ignores (``nohup``) or handles is left
    alone; Ctrl-C is always noted.
    """

    def __init__(self) -> None:
        self._signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            endings = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]
            free = [one for one in endings if one and signal.getsignal(one) == signal.SIG_DFL]
            for number in (signal.SIGINT, *free):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    @property
    def asked(self) -> bool:
        """Whether this process was told to stop."""
        return self._signal is not None

    @property
    def ended(self) -> bool:
        """Whether it was told so by another signal than Ctrl-C's."""
        return self._signal not in (None, signal.SIGINT)

    def stop(self, message: str, *, ended: bool) -> NoReturn:
        """Raise what ends the training.

        Args:
            message: What was saved, and how to go on.
            ended: Whether any process was told by another signal than Ctrl-C's. The exit code then
                is that of a process which the signal ends: 128 and its number.
        """
        if not ended:
            raise KeyboardInterrupt(message)
        raise SystemExit(128 + (self._signal if self.ended and self._signal else signal.SIGTERM))

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._signal is not None:
            self._signal = number
            self.stop("", ended=self.ended)
        self._signal = number
