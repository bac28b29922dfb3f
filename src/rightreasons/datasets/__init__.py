"""Data sets: one data set = one file = one function that gives `Splits` with a card."""

from rightreasons.datasets.adapter import as_dataset as as_dataset
from rightreasons.datasets.augmented import Augmented as Augmented
from rightreasons.datasets.dataset import Card as Card
from rightreasons.datasets.dataset import Dataset as Dataset
from rightreasons.datasets.dataset import InMemory as InMemory
from rightreasons.datasets.dataset import Splits as Splits
from rightreasons.datasets.decoy_digits import decoy_digits as decoy_digits
from rightreasons.datasets.decoy_mnist import decoy_mnist as decoy_mnist
from rightreasons.datasets.folder import folder as folder
from rightreasons.datasets.registry import describe as describe
from rightreasons.datasets.registry import load as load
from rightreasons.datasets.registry import names as names

__all__ = [
    "Augmented",
    "Card",
    "Dataset",
    "InMemory",
    "Splits",
    "as_dataset",
    "decoy_digits",
    "decoy_mnist",
    "describe",
    "folder",
    "load",
    "names",
]
