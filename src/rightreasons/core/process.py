"""This process among others: its rank, and the lock on what it writes."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from rightreasons.core.files import not_writable
from rightreasons.errors import InvalidSettingError, OutputError

__all__ = ["hold", "is_main_process", "read_environment"]

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


@contextmanager
def hold(path: Path | None) -> Iterator[None]:
    """Let no other process write to a folder, or to a file, while the context lasts.

    The kernel frees the lock of a process that ends, however it ends. The lock file stays, since
    removing it would let two processes lock two files of that name. Of several processes of one
    training the first holds the lock for all.

    Args:
        path: A folder, which exists, or a file in a folder that exists; None holds nothing.

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
        lock.acquire(blocking=False)
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
        with suppress(OSError):
            holder.unlink()
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
