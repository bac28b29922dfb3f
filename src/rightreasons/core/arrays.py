"""The reader of archives of arrays, which believes no size that a file claims."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightreasons.core.files import Unreadable, check_file, translate_parser_errors

__all__ = ["read_arrays"]

ARRAY_BYTES = 1 << 36
DEFLATE_RATIO = 1100
"""No compressed byte becomes more bytes than this."""


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read an archive of arrays (``.npz``) whose sizes are what its headers claim."""
    check_file(path)
    with translate_parser_errors(), path.open("rb") as file, zipfile.ZipFile(file) as archive:
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
