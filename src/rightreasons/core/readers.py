"""One reader for each kind of file; whatever is in a file, it raises `Unreadable` or ends.

A reader checks that a file is a file, of a size that fits into memory, before it reads. What others
raise about the content (there is no list of it) becomes one kind of error.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

__all__ = [
    "Unreadable",
    "check_file",
    "parse_json",
    "parse_yaml",
    "read_arrays",
    "read_json",
    "read_yaml",
]

YAML_BYTES = 1 << 20
JSON_BYTES = 1 << 30
ARRAY_BYTES = 1 << 36
DEEPEST = 50
DEFLATE_RATIO = 1100
"""No compressed byte becomes more bytes than this."""


class Unreadable(ValueError):  # noqa: N818 - callers turn it into an error of their own
    """Why a file cannot be read: the end of a sentence, without a full stop."""


def check_file(path: Path, *, limit: int | None = None) -> None:
    """Raise unless ``path`` is a file, which reading does not wait for, of a bearable size.

    Raises:
        FileNotFoundError: There is none.
        Unreadable: It is something else, such as a folder or a pipe, or is too large.
    """
    try:
        if not path.exists():
            raise FileNotFoundError(f"no file {path}")
        is_file, size = path.is_file(), path.stat().st_size
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # a name that is too long, or holds a zero byte
        raise Unreadable(f"its name cannot be used ({error})") from error
    if not is_file:
        raise Unreadable("it is no file")
    if limit is not None and size > limit:
        raise Unreadable(f"it has {size} bytes, and at most {limit} are read")


@contextmanager
def _translate() -> Iterator[None]:
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
    with _translate():
        return json.loads(text)


def read_json(path: Path) -> Any:
    """Read a JSON file in UTF-8."""
    check_file(path, limit=JSON_BYTES)
    with _translate():
        return parse_json(path.read_text(encoding="utf-8"))


def parse_yaml(text: str) -> Any:
    """Parse YAML of plain values; aliases are refused, since few of them fill a memory."""
    with _translate():
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise Unreadable(f"it has an alias, *{event.anchor}; write the value itself")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise Unreadable("it is nested too deep")
        return yaml.safe_load(text)


def read_yaml(path: Path) -> Any:
    """Read a YAML file in UTF-8."""
    check_file(path, limit=YAML_BYTES)
    with _translate():
        return parse_yaml(path.read_text(encoding="utf-8"))


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read an archive of arrays (``.npz``) whose sizes are what its headers claim."""
    check_file(path)
    with _translate(), path.open("rb") as file, zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > ARRAY_BYTES:
            raise Unreadable(f"its arrays claim more than {ARRAY_BYTES} bytes")
        return {
            member.filename.removesuffix(".npy"): _read_array(archive, member) for member in members
        }


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    if member.file_size > DEFLATE_RATIO * member.compress_size + (1 << 16):
        raise Unreadable(f"{member.filename!r} claims {member.file_size} bytes, which it has not")
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(file)
        size = dtype.itemsize
        for side in shape:
            size *= side
        if dtype.hasobject or size != member.file_size - file.tell():
            raise Unreadable(f"{member.filename!r} is no array of {shape} {dtype}")
    with archive.open(member) as file:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        return array
