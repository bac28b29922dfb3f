"""Files that survive a crash: each is written beside its place, flushed, then moved there."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import platform
import re
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.errors import CheckpointMismatchError, OutputError, RunNotFoundError

__all__ = [
    "JSON_BYTES",
    "LIBRARIES",
    "Unreadable",
    "check_file",
    "describe_changes",
    "library_versions",
    "load_checkpoint",
    "load_tensors",
    "load_weights_into",
    "make_temporary",
    "not_writable",
    "numerics",
    "parse_json",
    "plain_values",
    "read_json",
    "refuse_other_model",
    "remove_orphans",
    "save_checkpoint",
    "save_tensors",
    "save_weights",
    "translate_parser_errors",
    "writable_folder",
    "write_atomically",
    "write_json",
]

JSON_BYTES = 1 << 30
TEMPORARY = ".tmp"
_ORPHAN = re.compile(r"\..+\.(?P<host>[0-9a-f]{8})-(?P<pid>\d{1,10})-[a-z0-9_]+\.tmp", re.DOTALL)


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a new file and move it to ``path``: whole, or not at all."""
    try:
        handle, temporary = make_temporary(path)
    except OSError as error:
        raise not_writable(path.parent, error) from error
    raw = _RawFile(handle, "wb")
    try:
        with io.BufferedWriter(raw) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # as `open` would have made it, not private
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        failure = raw.failure or error  # torch.save raises an error of its own
        if isinstance(failure, OSError) and isinstance(error, Exception):
            raise not_writable(path, failure) from error
        raise


class _RawFile(io.FileIO):
    """A file that remembers why it could not be written."""

    failure: OSError | None = None

    @override
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise


def make_temporary(path: Path) -> tuple[int, str]:
    """Open a new file beside ``path``; its name says which process writes it.

    Returns:
        The file's descriptor and path.
    """
    prefix = f".{path.name[:80]}.{_host()}-{os.getpid()}-"
    return tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=TEMPORARY)


def remove_orphans(folder: Path) -> None:
    """Remove the temporary files of writers on this machine that were killed."""
    for file in folder.glob(f".*{TEMPORARY}"):
        match = _ORPHAN.fullmatch(file.name)
        if match and match["host"] == _host() and not _is_alive(int(match["pid"])):
            with suppress(OSError):
                file.unlink()


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # a process of somebody else
        return True
    return True


def write_json(path: Path, value: object) -> None:
    """Write indented JSON, atomically; NaN and infinity become null, since JSON has neither."""
    text = json.dumps(_finite(value), indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def writable_folder(path: str | Path) -> Path:
    """Create a folder, or raise an error that says why it cannot be written.

    Temporary files that killed writers left there are removed.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_orphans(folder)
        handle, temporary = make_temporary(folder / "writable")
        os.close(handle)
        os.unlink(temporary)
    except OSError as error:
        raise not_writable(folder, error) from error
    return folder


class Unreadable(ValueError):  # noqa: N818 - callers turn it into an error of their own
    """Why a file cannot be read: the end of a sentence, without a full stop."""


def check_file(path: Path, *, limit: int | None = None) -> None:
    """Raise unless ``path`` is a file, which reading does not wait for, of a bearable size.

    Raises:
        FileNotFoundError: There is none.
        Unreadable: It is something else, such as a folder or a pipe, or is too large.
    """
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"no file {path}") from None
    except (OSError, ValueError) as error:  # a name that is too long, or holds a zero byte
        raise Unreadable(f"its name cannot be used ({error})") from error
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable("it is no file")
    if limit is not None and status.st_size > limit:
        raise Unreadable(f"it has {status.st_size} bytes, and at most {limit} are read")


@contextmanager
def translate_parser_errors() -> Iterator[None]:
    """Turn whatever a parser raises about bad content into `Unreadable`."""
    try:
        yield
    except (FileNotFoundError, Unreadable):
        raise
    except RecursionError as error:
        raise Unreadable("it is nested too deep") from error
    except MemoryError as error:
        raise Unreadable("it needs more memory than there is") from error
    except Exception as error:
        raise Unreadable(" ".join(str(error).split())[:300] or type(error).__name__) from error


def parse_json(text: str | bytes) -> Any:
    """Parse JSON."""
    with translate_parser_errors():
        return json.loads(text)


def read_json(path: Path) -> Any:
    """Read a JSON file in UTF-8."""
    check_file(path, limit=JSON_BYTES)
    with translate_parser_errors():
        return parse_json(path.read_text(encoding="utf-8"))


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Save tensors and plain values so that `load_checkpoint` can read them safely."""
    plain = plain_values(dict(state))
    write_atomically(path, lambda file: torch.save(plain, file))


def plain_values(value: Any) -> Any:
    """Convert NumPy's numbers to Python's, and enumerations and paths to strings."""
    if isinstance(value, dict):
        return {key: plain_values(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(part) for part in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value) if isinstance(value, Path | StrEnum) else value


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Load what `save_checkpoint` wrote; no code in the file is ever run."""
    if not path.exists():
        raise RunNotFoundError(f"Expected a checkpoint at {path}, but there is none to resume.")
    try:
        check_file(path)
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise CheckpointMismatchError(
            f"Expected a checkpoint of rightreasons at {path}, but it cannot be read: {error}"
        ) from error
    if not isinstance(state, dict):
        raise CheckpointMismatchError(
            f"Expected a checkpoint of rightreasons at {path}, but got {type(state).__name__}."
        )
    return state


def save_weights(path: Path, model: nn.Module) -> None:
    """Save a model's state as safetensors."""
    save_tensors(path, model.state_dict())


def save_tensors(path: Path, named: Mapping[str, Tensor]) -> None:
    """Save tensors by name as safetensors; those that share memory become apart."""
    tensors = {name: tensor.detach().cpu() for name, tensor in named.items()}
    distinct = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    data = save(distinct)
    write_atomically(path, lambda file: file.write(data))


def load_weights_into(model: nn.Module, path: Path) -> None:
    """Load safetensors of exactly this model."""
    if not path.exists():
        raise RunNotFoundError(f"Expected weights at {path}, but there are none.")
    tensors = load_tensors(path)
    refuse_other_model(tensors, model, path)
    model.load_state_dict(tensors)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Load tensors by name from safetensors."""
    try:
        check_file(path)
        return load_file(path)
    except Exception as error:  # the content of a file may raise anything
        raise CheckpointMismatchError(
            f"Expected weights as safetensors at {path}, but they cannot be read: {error}"
        ) from error


def refuse_other_model(state: Mapping[str, Tensor], model: nn.Module, path: Path) -> None:
    """Raise if a saved state does not fit the model, naming what differs."""
    expected = model.state_dict()
    if not isinstance(state, Mapping) or not all(isinstance(one, Tensor) for one in state.values()):
        raise CheckpointMismatchError(
            f"Expected {path} to hold the weights of this model by name, but it holds something "
            "else. Build the model it was saved from, or use another folder."
        )
    missing = [name for name in expected if name not in state]
    extra = sorted(str(name) for name in state if name not in expected)
    shapes = [
        f"{name} {tuple(state[name].shape)} for {tuple(expected[name].shape)}"
        for name in expected
        if name in state and state[name].shape != expected[name].shape
    ]
    if missing or extra or shapes:
        kinds = [("missing", missing), ("unknown", extra), ("of another shape", shapes)]
        words = "; ".join(f"{kind}: {', '.join(names[:3])}" for kind, names in kinds if names)
        raise CheckpointMismatchError(
            f"Expected {path} to hold the weights of this model, but it is of another one "
            f"({words}). Build the model it was saved from, or use another folder."
        )


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def not_writable(folder: Path, error: OSError) -> OutputError:
    """The error for a place that cannot be written."""
    reason = error.strerror or str(error)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "Make room there, or choose another" if full else "Choose another"
    return OutputError(
        f"Expected a place to write to, but {folder} cannot be written ({reason}). {remedy} with "
        "--out."
    )


LIBRARIES = ("rightreasons", "torch", "numpy")


def library_versions() -> dict[str, str]:
    """The versions of Python and of the libraries that compute."""
    versions = {name: metadata.version(name) for name in LIBRARIES}
    return {**versions, "python": platform.python_version()}


def numerics() -> dict[str, str]:
    """All that changes how numbers are rounded: versions, and the number of threads.

    Example:
        >>> sorted(numerics())
        ['numpy', 'python', 'rightreasons', 'threads', 'torch']
    """
    return {**library_versions(), "threads": str(torch.get_num_threads())}


def describe_changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """List what is different now, such as ``threads 1, now 2``; empty if nothing is.

    Example:
        >>> describe_changes({"threads": "1", "torch": "2.8"}, {"threads": "2", "torch": "2.8"})
        'threads 1, now 2'
    """
    names = [name for name in now if name in before and before[name] != now[name]]
    return ", ".join(f"{name} {before[name]}, now {now[name]}" for name in names)
