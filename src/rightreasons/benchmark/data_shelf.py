"""The data of a sweep: loaded once, kept while in use, known by their hash."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from rightreasons.benchmark.cell import data_key
from rightreasons.benchmark.journal import Journal
from rightreasons.datasets import Splits
from rightreasons.run import Config

__all__ = ["DataShelf"]


class DataShelf:
    """Gives the data a run asks for, and their hash without loading them where it is known.

    A hash is known as long as names, sizes and times of all files in ``data_dir`` and the version
    of this library are as they were when it was taken; if any changed, the data are loaded and
    hashed anew. Linked folders are not looked into. The data of one key are held at a time.

    Args:
        data_dir: Where files of data sets lie.
        journal: Where hashes are remembered.
    """

    def __init__(self, data_dir: str | Path | None, journal: Journal) -> None:
        self.data_dir = None if data_dir is None else str(data_dir)
        self._journal = journal
        self._state = _state(self.data_dir)
        self._digests: dict[str, str] = {
            entry["data_key"]: entry["data_sha256"]
            for entry in journal.entries()
            if entry["state"] == self._state
        }
        self._key = ""
        self._data: Splits | None = None

    def digest(self, config: Config) -> str:
        """The hash of the data of this run."""
        key = data_key(config)
        if key not in self._digests:
            self.load(config)
        return self._digests[key]

    def load(self, config: Config) -> Splits:
        """The data of this run."""
        key = data_key(config)
        if self._data is not None and key == self._key:
            return self._data
        self._data = None  # let go of the old ones before the new ones need room
        data = replace(config, data_dir=self.data_dir).load_data()
        digest = data.digest()
        if self._digests.get(key) != digest:
            entry = {"data_key": key, "state": self._state, "data_sha256": digest}
            self._journal.append(entry)
        self._key, self._data, self._digests[key] = key, data, digest
        return data


def _state(data_dir: str | None) -> str:
    sha = hashlib.sha256(metadata.version("rightreasons").encode())
    for folder, folders, files in os.walk(data_dir) if data_dir is not None else ():
        folders.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            with suppress(FileNotFoundError):  # a link to nothing, or a file just removed
                seen = os.stat(path)
                sha.update(os.fsencode(os.path.relpath(path, data_dir)))
                sha.update(f" {seen.st_size} {seen.st_mtime_ns} ".encode())
    return sha.hexdigest()
