"""Data sets by name, for the command line and for configurations."""

import inspect
from os import PathLike
from typing import Any

from rightreasons.core.checks import check_names
from rightreasons.core.registry import Registry
from rightreasons.datasets.dataset import Splits
from rightreasons.datasets.masks import MASK_SETTINGS, with_mask_settings
from rightreasons.datasets.sets.background_challenge import background_challenge
from rightreasons.datasets.sets.biased_mnist import biased_mnist
from rightreasons.datasets.sets.block_mnist import block_mnist
from rightreasons.datasets.sets.cats_vs_dogs import cats_vs_dogs
from rightreasons.datasets.sets.celeba_hair import celeba_hair
from rightreasons.datasets.sets.cifar import cifar10, cifar100
from rightreasons.datasets.sets.decoy_derm import decoy_derm
from rightreasons.datasets.sets.decoy_digits import decoy_digits
from rightreasons.datasets.sets.decoy_ham import decoy_ham
from rightreasons.datasets.sets.decoy_mnist import decoy_mnist
from rightreasons.datasets.sets.folder import folder
from rightreasons.datasets.sets.half_decoy_mnist import half_decoy_mnist
from rightreasons.datasets.sets.image_folder import image_folder
from rightreasons.datasets.sets.isic import isic
from rightreasons.datasets.sets.isic2017 import isic2017
from rightreasons.datasets.sets.oxford_pets import oxford_pets
from rightreasons.datasets.sets.plant import plant
from rightreasons.datasets.sets.salient_imagenet import salient_imagenet
from rightreasons.datasets.sets.svhn import svhn
from rightreasons.datasets.sets.textured_mnist import textured_mnist
from rightreasons.datasets.sets.waterbirds import waterbirds
from rightreasons.errors import DatasetNotFoundError

__all__ = ["DATASETS", "describe", "load", "names"]

DATASETS: Registry[Splits] = Registry(
    "data set",
    {
        "block_mnist": block_mnist,
        "celeba_hair": celeba_hair,
        "background_challenge": background_challenge,
        "biased_mnist": biased_mnist,
        "cats_vs_dogs": cats_vs_dogs,
        "cifar10": cifar10,
        "cifar100": cifar100,
        "decoy_derm": decoy_derm,
        "decoy_digits": decoy_digits,
        "decoy_ham": decoy_ham,
        "decoy_mnist": decoy_mnist,
        "folder": folder,
        "half_decoy_mnist": half_decoy_mnist,
        "image_folder": image_folder,
        "isic": isic,
        "isic2017": isic2017,
        "oxford_pets": oxford_pets,
        "plant": plant,
        "salient_imagenet": salient_imagenet,
        "svhn": svhn,
        "textured_mnist": textured_mnist,
        "waterbirds": waterbirds,
    },
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
        settings: Those of the function of that name; and for every data set with masks
            ``mask_fraction``, ``mask_fraction_keep``, ``mask_corruption``, ``mask_correct`` and
            ``num_masks``, see `with_mask_settings`.

    Raises:
        UnknownNameError: There is none of that name.
        InvalidSettingError: It has no such setting, or not with that value.
        DatasetNotFoundError: It needs a data directory.

    Example:
        >>> load("decoy-digits", patch=2).card.name
        'decoy_digits'
        >>> few = load("decoy-digits", mask_fraction=0.2, mask_fraction_keep="data")
        >>> len(few.train)
        200
    """
    known = (*DATASETS.settings(name), *MASK_SETTINGS)
    check_names(f"settings of the data set {name!r}", settings, known)
    of_masks = {key: settings.pop(key) for key in MASK_SETTINGS if key in settings}
    files: list[str | PathLike[str]] = []
    if _needs_data_dir(name):
        if data_dir is None:
            raise DatasetNotFoundError(
                f"Expected a data directory for {name!r}, but got none. Pass `--data-dir DIR` on "
                "the command line, or data_dir in Python."
            )
        files.append(data_dir)
    splits = DATASETS.create(name, *files, seed=seed, **settings)
    return with_mask_settings(splits, seed=seed, **of_masks)


def names() -> tuple[str, ...]:
    """All names, sorted."""
    return tuple(DATASETS)


def describe() -> dict[str, str]:
    """One line for each data set."""
    return DATASETS.describe()


def _needs_data_dir(name: str) -> bool:
    parameters = inspect.signature(DATASETS[name]).parameters.values()
    return any(one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for one in parameters)
