"""Data sets by name, for the command line and for configurations."""

import inspect
from os import PathLike
from typing import Any

from rightreasons.datasets.dataset import Splits
from rightreasons.datasets.decoy_digits import decoy_digits
from rightreasons.datasets.decoy_mnist import decoy_mnist
from rightreasons.datasets.folder import folder
from rightreasons.errors import DatasetNotFoundError
from rightreasons.registry import Registry

__all__ = ["DATASETS", "describe", "load", "names"]

DATASETS: Registry[Splits] = Registry(
    "data set",
    {"decoy_digits": decoy_digits, "decoy_mnist": decoy_mnist, "folder": folder},
)


def load(
    name: str,
    *,
    data_dir: str | PathLike[str] | None = None,
    seed: int = 0,
    **settings: Any,
) -> Splits:
    """Load the data set called ``name``.

    Args:
        name: As `names` lists them; a hyphen is an underscore.
        data_dir: Where its files lie; data sets that need none ignore it.
        seed: From 0.
        settings: Those of the function of that name.

    Raises:
        UnknownNameError: There is none of that name.
        InvalidSettingError: It has no such setting, or not with that value.
        DatasetNotFoundError: It needs a data directory.

    Example:
        >>> load("decoy-digits", patch=2).card.name
        'decoy_digits'
    """
    if not _needs_data_dir(name):
        return DATASETS.create(name, seed=seed, **settings)
    if data_dir is None:
        raise DatasetNotFoundError(
            f"Expected a data directory for {name!r}, but got none. Pass `--data-dir DIR` on the "
            "command line, or data_dir in Python."
        )
    return DATASETS.create(name, data_dir, seed=seed, **settings)


def names() -> tuple[str, ...]:
    """All names, sorted."""
    return tuple(DATASETS)


def describe() -> dict[str, str]:
    """One line for each data set."""
    return DATASETS.describe()


def _needs_data_dir(name: str) -> bool:
    parameters = inspect.signature(DATASETS[name]).parameters.values()
    return any(one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for one in parameters)
