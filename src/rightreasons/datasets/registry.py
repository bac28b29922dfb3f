"""Data sets by name, for the command line and for configurations."""

import inspect
import shlex
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from rightreasons.core.checks import Registry, check_choice, check_names
from rightreasons.datasets import masks, sets
from rightreasons.datasets.balanced import Balanced
from rightreasons.datasets.dataset import Splits
from rightreasons.errors import DatasetNotFoundError, InvalidSettingError, UnknownNameError

__all__ = [
    "BALANCE",
    "DATASETS",
    "MASK_SETTINGS",
    "apply_mask_settings",
    "describe",
    "load",
    "names",
]

BALANCE = "balance"
"""Name of the setting that every data set takes."""

DATASETS: Registry[Splits] = Registry(
    "data set", {name: getattr(sets, name) for name in sets.__all__}
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
        name: A name of `names`; a hyphen is an underscore.
        data_dir: Folder with the files; data sets without files ignore it.
        seed: Random seed, from 0.
        settings: The settings of the data set's function. Every data set with masks also takes
            ``mask_fraction``, ``mask_fraction_keep``, ``mask_corruption``, ``mask_correct`` and
            ``num_masks``, as in `apply_mask_settings`. Every data set takes ``balance``:
            ``"groups"`` or ``"classes"``, of which each epoch has as many samples (`Balanced`).

    Raises:
        UnknownNameError: There is no data set of that name.
        InvalidSettingError: The data set has no such setting, or does not take that value.
        DatasetNotFoundError: The data set needs a data directory.

    Example:
        >>> load("decoy-digits", patch=2).card.name
        'decoy_digits'
        >>> few = load("decoy-digits", mask_fraction=0.2, mask_fraction_keep="data")
        >>> len(few.train)
        200
    """
    if name not in DATASETS:
        raise UnknownNameError("data set", name, DATASETS, hint=_own_images(name))
    known = (*DATASETS.settings(name), *MASK_SETTINGS, BALANCE)
    check_names(f"settings of the data set {name!r}", settings, known)
    balance = settings.pop(BALANCE, None)
    mask_settings = {key: settings.pop(key) for key in MASK_SETTINGS if key in settings}
    folders: list[str | PathLike[str]] = []
    if _needs_data_dir(name):
        if data_dir is None:
            raise DatasetNotFoundError(
                f"Expected a data directory for {name!r}, but got none. Pass `--data-dir DIR` on "
                f"the command line, or data_dir in Python.{_own_images(name)}"
            )
        folders.append(data_dir)
    splits = DATASETS.create(name, *folders, seed=seed, **settings)
    splits = apply_mask_settings(splits, seed=seed, **mask_settings)
    if balance is None:
        return splits
    by = check_choice("balance", balance, ("groups", "classes"))
    return replace(splits, train=Balanced(splits.train, by, seed=seed))


def names() -> tuple[str, ...]:
    """The names of all data sets, sorted."""
    return tuple(DATASETS)


def describe() -> dict[str, str]:
    """One line for each data set."""
    return DATASETS.describe()


def apply_mask_settings(
    splits: Splits,
    *,
    mask_fraction: float | None = None,
    mask_fraction_keep: str = "masks",
    mask_corruption: str | None = None,
    mask_correct: float = 0.0,
    num_masks: int | None = None,
    seed: int = 0,
) -> Splits:
    """Corrupt and reduce the training masks, in this order.

    Args:
        splits: A data set with masks.
        mask_fraction: Fraction of the training samples that keep their masks, or None for all;
            the ``fraction`` of `mask_fraction`.
        mask_fraction_keep: The ``keep`` of `mask_fraction`.
        mask_corruption: The ``kind`` of `corrupt_masks`, or None for no corruption.
        mask_correct: The ``correct`` of `corrupt_masks`.
        num_masks: Number of masks to keep in the end, or None for all; as in `mask_count`.
        seed: Random seed for all three.
    """
    if mask_corruption is not None:
        splits = masks.corrupt_masks(splits, kind=mask_corruption, correct=mask_correct, seed=seed)
    elif mask_correct != 0.0:
        raise InvalidSettingError(
            f"Expected `mask_corruption` beside `mask_correct`, but got {mask_correct!r} alone. "
            f"Choose one of {', '.join(masks.CORRUPTIONS)}."
        )
    if mask_fraction is not None:
        splits = masks.mask_fraction(
            splits, fraction=mask_fraction, keep=mask_fraction_keep, seed=seed
        )
    elif mask_fraction_keep != "masks":
        raise InvalidSettingError(
            f"Expected `mask_fraction` beside `mask_fraction_keep`, but got "
            f"{mask_fraction_keep!r} alone. Pass the share to keep, from 0 to 1."
        )
    if num_masks is not None:
        splits = masks.mask_count(splits, num_masks=num_masks, seed=seed)
    return splits


MASK_SETTINGS = tuple(
    name
    for name in inspect.signature(apply_mask_settings).parameters
    if name not in ("splits", "seed")
)
"""The names of the mask settings, which every data set with masks takes."""


def _own_images(name: str) -> str:
    """How to name the user's own images, which a data set's name was tried for."""
    folder = Path(name)
    has_table = any((folder / f"data.{ending}").exists() for ending in ("csv", "parquet"))
    kind = "image_folder" if folder.is_dir() and not has_table else "folder"
    where = shlex.quote(name) if folder.is_dir() else "DIR"
    return f" For images of your own: --data {kind} --data-dir {where}."


def _needs_data_dir(name: str) -> bool:
    parameters = inspect.signature(DATASETS[name]).parameters.values()
    return any(one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for one in parameters)
