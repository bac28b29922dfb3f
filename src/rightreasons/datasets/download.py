"""Download of one file, from the first mirror that has it, with a check of its content."""

import hashlib
import http.client
import os
import urllib.request
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from rightreasons.core.files import make_temporary, remove_orphans
from rightreasons.core.progress import progress
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, OutputError

__all__ = ["download"]

CHUNK_BYTES = 1 << 18
TIMEOUT_SECONDS = 30.0
GZIP_WINDOW = 31  # zlib's code for data with a gzip header


def download(urls: Sequence[str], path: Path, *, sha256: str, unpack: bool = False) -> None:
    """Download a file; it gets its name only when it is complete and checked.

    An interruption leaves no file behind. Two processes may download the same file.

    Args:
        urls: Mirrors, tried in this order.
        path: Target file; its folder is created.
        sha256: SHA-256 of the stored content, that is of the unpacked content with ``unpack``.
        unpack: Whether to decompress gzip while downloading.

    Raises:
        DatasetNotFoundError: No mirror could be reached.
        DatasetCorruptError: A mirror sent other content.
        OutputError: The folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_orphans(path.parent)
        handle, name = make_temporary(path)
    except OSError as error:
        raise OutputError(
            f"Expected to write {path}, but got: {error}. Choose a folder you may write to."
        ) from error
    partial = Path(name)
    failures: list[str] = []
    corrupt = False
    try:
        with os.fdopen(handle, "wb") as target:
            for url in urls:
                try:
                    digest = _fetch(url, target, description=path.name, unpack=unpack)
                except (OSError, http.client.HTTPException, zlib.error) as error:
                    failures.append(f"{url}: {error}")
                    continue
                if digest == sha256:
                    target.close()
                    partial.chmod(0o644)
                    os.replace(partial, path)
                    return
                corrupt = True
                failures.append(f"{url}: sha256 {digest}, expected {sha256}")
    finally:
        partial.unlink(missing_ok=True)
    kind = DatasetCorruptError if corrupt else DatasetNotFoundError
    raise kind(
        f"Expected to download {path.name}, but no mirror gave it ({'; '.join(failures)}). "
        f"Try again later, or fetch it by other means and put it at {path}."
    )


def _fetch(url: str, target: BinaryIO, *, description: str, unpack: bool) -> str:
    """Overwrite ``target`` with the content of ``url``; return the SHA-256 of what was written."""
    target.seek(0)
    target.truncate()
    sha = hashlib.sha256()
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
        size = response.headers.get("Content-Length") or ""
        total = int(size) if size.isascii() and size.isdigit() and len(size) < 16 else None
        with progress(f"downloading {description}", total=total) as advance:
            gunzip = zlib.decompressobj(GZIP_WINDOW) if unpack else None
            while chunk := response.read(CHUNK_BYTES):
                advance(len(chunk))
                content = gunzip.decompress(chunk) if gunzip else chunk
                sha.update(content)
                target.write(content)
    return sha.hexdigest()
