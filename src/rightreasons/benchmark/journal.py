"""A file of JSON lines that only ever grows, whoever writes and whoever is killed."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock

from rightreasons.errors import OutputError

__all__ = ["Journal"]

logger = logging.getLogger("rightreasons")


class Journal:
    """JSON objects, one a line, appended by any number of processes.

    A writer holds a lock, writes its line and waits until the disk has it. A line without an end
    is what a killed writer left: readers skip it, the next writer cuts it off.

    Args:
        path: The file; it need not exist. The lock is beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, entry: dict[str, Any]) -> None:
        """Add a line; when this returns, it is on the disk."""
        line = json.dumps(entry, allow_nan=False).encode() + b"\n"
        try:
            with FileLock(f"{self.path}.lock"), self.path.open("a+b") as file:
                _cut_torn_line(file)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(
                f"Expected to append to {self.path}, but it cannot be written "
                f"({error.strerror or error}). Make room or choose another folder with --out."
            ) from error

    def entries(self) -> list[dict[str, Any]]:
        """All whole lines so far, in the order they were written."""
        if not self.path.exists():
            return []
        found = []
        *lines, _unfinished = self.path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, start=1):
            try:
                entry = json.loads(line)
            except ValueError:
                entry = None
            if isinstance(entry, dict):
                found.append(entry)
            else:
                logger.warning(
                    "Line %d of %s is damaged and does not count; its run will be repeated.",
                    number,
                    self.path,
                )
        return found


def _cut_torn_line(file: BinaryIO) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 1, 0))
    if file.read(1) not in (b"", b"\n"):
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
