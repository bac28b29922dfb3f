"""Arrays by name from a pickle file that may come from anywhere, without running its code."""

import codecs
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightreasons.errors import DatasetCorruptError

__all__ = ["read_pickled_arrays", "unpickled"]

_array = np.zeros(1)
_KNOWN: dict[str, Any] = {  # all that a pickled array calls
    "ndarray": np.ndarray,
    "dtype": np.dtype,
    "_reconstruct": _array.__reduce_ex__(2)[0],
    "_frombuffer": _array.__reduce_ex__(5)[0],
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in _KNOWN:
            return _KNOWN[name]
        if (module, name) == ("_codecs", "encode"):  # how old pickles write bytes
            return codecs.encode
        raise pickle.UnpicklingError(f"it wants {module}.{name}, which is no part of an array")


def unpickled(path: Path) -> Any:
    """Whatever arrays and plain values a pickle holds; a class or function in it is an error.

    Raises:
        Exception: A damaged or foreign pickle may raise anything.
    """
    with path.open("rb") as file:
        return _ArrayUnpickler(file, encoding="latin1").load()  # as Python 2 wrote arrays


def read_pickled_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read a pickled dictionary of arrays; anything else in it is refused.

    Raises:
        DatasetCorruptError: It is something else or cannot be read.
    """
    try:
        content = unpickled(path)
    except Exception as error:  # a damaged pickle may raise anything
        raise DatasetCorruptError(
            f"Expected {path} to be a pickled dictionary of arrays, but got: {error}. Copy it anew."
        ) from error
    if not isinstance(content, dict) or not all(
        isinstance(key, str) and isinstance(value, np.ndarray) for key, value in content.items()
    ):
        raise DatasetCorruptError(
            f"Expected {path} to be a pickled dictionary of arrays by name, but got "
            f"{type(content).__name__}."
        )
    return content
