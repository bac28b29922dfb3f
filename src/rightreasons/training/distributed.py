"""The processes of a training: launching, random states, signals, common decisions."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Self

import torch
from filelock import FileLock, Timeout
from lightning_fabric import Fabric
from torch import distributed

from rightreasons.core.checks import check_integer
from rightreasons.core.files import not_writable
from rightreasons.errors import InvalidSettingError, OutputError

__all__ = [
    "Interrupts",
    "agree",
    "gather",
    "hold",
    "is_main_process",
    "launch_fabric",
    "random_state",
    "read_environment",
    "restore_random_state",
    "seeded",
]

MOST_DEVICES = 4096

_held: dict[Path, tuple[int, int]] = {}
"""Process and thread that hold a lock, so that a run may hold the folder of its fit twice."""


def read_environment(name: str, default: int) -> int:
    """The whole number in an environment variable that a launcher sets."""
    text = os.environ.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidSettingError(
            f"Expected the environment variable {name} to be a whole number from 0, as torchrun "
            f"sets it, but got {text[:40]!r}. Unset it (`unset {name}`)."
        )
    return int(text)


def is_main_process() -> bool:
    """Whether this process is the one that prints, by what its launcher put in the environment."""
    return read_environment("RANK", read_environment("LOCAL_RANK", 0)) == 0


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


@contextmanager
def hold(path: Path | None, *, patience: float = 0.1) -> Iterator[None]:
    """Let no other process write to a folder, or to a file, while the context lasts.

    The kernel frees the lock of a process that ends, however it ends. If several processes train
    together, the first one holds the lock for all.

    Args:
        path: A folder, which exists, or a file in a folder that exists; None holds nothing.
        patience: Seconds to wait for it; a little, since another process may just remove the file.

    Raises:
        OutputError: Another process, or another thread, holds it; the message says who.
    """
    path = None if path is None else path.resolve()
    me = (os.getpid(), threading.get_ident())
    if path is None or not is_main_process() or _held.get(path) == me:
        yield
        return
    file = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
    holder = file.with_name(f"{file.name}.holder")
    lock = FileLock(file)
    try:
        lock.acquire(timeout=patience)
    except Timeout:
        raise _in_use(path, holder) from None
    except OSError as error:
        raise not_writable(path, error) from error
    try:
        _held[path] = me
        _write_holder(holder)
        yield
    finally:
        _held.pop(path, None)
        for left in (
            holder,
            file,
        ):  # while it is locked: `FileLock` takes no lock on a removed file
            with suppress(OSError):
                left.unlink()
        lock.release()


def _write_holder(path: Path) -> None:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since})
    with suppress(OSError):  # a courtesy: a full disk is told where results are written
        path.write_text(text)


def _in_use(path: Path, holder: Path) -> OutputError:
    try:
        told = json.loads(holder.read_text())
        who = f"process {told['pid']} on {told['host']} since {told['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    return OutputError(
        f"Expected a place that no other process writes to, but {path} is in use by {who}. Wait "
        "until it ends, or choose another with --out."
    )


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
