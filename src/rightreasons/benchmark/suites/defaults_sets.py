"""Data sets of the suite of defaults, in two lists: to choose defaults on, and to test them on."""

from __future__ import annotations

from collections.abc import Mapping

from rightreasons.benchmark.suite import Grid, Overrides

__all__ = ["CASES", "DEVELOPMENT", "FEW_MASKS", "GRIDS", "NATURAL", "NO_SHORTCUT", "TEST"]

PHOTO_SIZE = 48
_FEW = {"num_validation": 200, "num_test": 1000}
_PETS: Overrides = {"data_settings": {"size": PHOTO_SIZE, "num_train": 1000, **_FEW}}
_PETS_TAG: Overrides = {"data": "pets_tag", **_PETS}

DEVELOPMENT: Mapping[str, Overrides] = {
    "pets_tag": _PETS_TAG,
    "decoy_derm": {
        "data": "decoy_derm",
        "data_settings": {"mask_fraction": 0.3, "mask_fraction_keep": "data"},
    },
    "biased_mnist": {
        "data": "biased_mnist",
        "data_settings": {"test": "biased", "subset": 2000, "validation": 500},
    },
    "decoy_digits": {"data": "decoy_digits", "data_settings": {"table": True}},
}
"""Data sets on which defaults may be chosen."""

TEST: Mapping[str, Overrides] = {
    "pets_band": {
        "data": "pets_tag",
        "data_settings": {**_PETS["data_settings"], "shortcut": "band"},
    },
    "decoy_ham": {
        "data": "decoy_ham",
        "data_settings": {
            "size": PHOTO_SIZE,
            "share": 1.0,
            "zoom": 4.0,
            "mask_fraction": 0.3,
            "mask_fraction_keep": "data",
        },
        "settings": {"class_weights": [1.0, 4.0]},  # four benign images to a malignant one
    },
    "textured_mnist": {
        "data": "textured_mnist",
        "data_settings": {"size": 28, "num_train": 2000, "num_validation": 200, "num_test": 1000},
    },
    "waterbirds": {
        "data": "waterbirds",
        "data_settings": {
            "size": PHOTO_SIZE,
            "mask_fraction": 0.25,
            "mask_fraction_keep": "data",
        },
    },
    "isic2017": {
        "data": "isic_patches",
        "data_settings": {"size": PHOTO_SIZE, "mask": "outside_lesion"},
        "settings": {"class_weights": [1.0, 4.0]},
    },
    "celeba_hair": {
        "data": "celeba_hair",
        "data_settings": {
            "size": PHOTO_SIZE,
            "mask": "face",
            "mask_fraction": 0.12,
            "mask_fraction_keep": "data",
        },
    },
}
"""Data sets that are run once, after defaults were chosen, and reported whatever they show."""

GRIDS: Mapping[str, Mapping[str, Grid]] = {
    "decoy_ham": {"oracle": [{"data_settings": {"share": 0.5}}]},
}
"""An oracle of skin lesions sees as many artefacts in training as at test."""

FEW_MASKS, NO_SHORTCUT = "pets_tag, 20 masks", "pets_tag, no shortcut"
CASES: Mapping[str, Overrides] = {
    FEW_MASKS: {
        **_PETS_TAG,
        "data_settings": {**_PETS["data_settings"], "num_masks": 20},
    },
    "pets_tag, wrong masks": {
        **_PETS_TAG,
        "data_settings": {
            **_PETS["data_settings"],
            "mask_corruption": "shift",
            "mask_correct": 0.5,
        },
    },
    NO_SHORTCUT: {
        **_PETS_TAG,
        "data_settings": {**_PETS["data_settings"], "oracle": True},
    },
}
"""Tagged Pets with few masks, with wrong ones, and with tags that tell nothing."""

NATURAL = ("waterbirds", "celeba_hair")
"""Data sets without an oracle: the shortcut is in the photographs."""
