"""Data sets: one data set = one file = one function that gives `Splits` with a card."""

from rightreasons.datasets.adapter import as_dataset as as_dataset
from rightreasons.datasets.augmented import Augmented as Augmented
from rightreasons.datasets.cifar10 import cifar10 as cifar10
from rightreasons.datasets.corrupt_masks import corrupt_masks as corrupt_masks
from rightreasons.datasets.dataset import Card as Card
from rightreasons.datasets.dataset import Dataset as Dataset
from rightreasons.datasets.dataset import InMemory as InMemory
from rightreasons.datasets.dataset import Splits as Splits
from rightreasons.datasets.decoy_derm import decoy_derm as decoy_derm
from rightreasons.datasets.decoy_digits import decoy_digits as decoy_digits
from rightreasons.datasets.decoy_mnist import decoy_mnist as decoy_mnist
from rightreasons.datasets.folder import folder as folder
from rightreasons.datasets.half_decoy_mnist import half_decoy_mnist as half_decoy_mnist
from rightreasons.datasets.image_folder import image_folder as image_folder
from rightreasons.datasets.isic import isic as isic
from rightreasons.datasets.mask_fraction import mask_fraction as mask_fraction
from rightreasons.datasets.plant import plant as plant
from rightreasons.datasets.registry import describe as describe
from rightreasons.datasets.registry import load as load
from rightreasons.datasets.registry import names as names
from rightreasons.datasets.salient_imagenet import salient_imagenet as salient_imagenet

__all__ = [
    "Augmented",
    "Card",
    "Dataset",
    "InMemory",
    "Splits",
    "as_dataset",
    "cifar10",
    "corrupt_masks",
    "decoy_derm",
    "decoy_digits",
    "decoy_mnist",
    "describe",
    "folder",
    "half_decoy_mnist",
    "image_folder",
    "isic",
    "load",
    "mask_fraction",
    "names",
    "plant",
    "salient_imagenet",
]
