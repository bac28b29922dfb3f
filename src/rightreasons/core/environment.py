"""Versions and threads, on which the last bits of a result depend."""

import platform
from collections.abc import Mapping
from importlib import metadata

import torch

__all__ = ["describe_changes", "library_versions", "numerics"]

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
