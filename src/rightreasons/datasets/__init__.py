"""Data sets: one data set is one file of `sets` with one function that returns `Splits`."""

from rightreasons.datasets import sets
from rightreasons.datasets.annotations.importing import Imported as Imported
from rightreasons.datasets.annotations.importing import import_masks as import_masks
from rightreasons.datasets.annotations.label_studio import export_masks as export_masks
from rightreasons.datasets.augmented import Augmented as Augmented
from rightreasons.datasets.dataset import Card as Card
from rightreasons.datasets.dataset import Dataset as Dataset
from rightreasons.datasets.dataset import InMemory as InMemory
from rightreasons.datasets.dataset import Splits as Splits
from rightreasons.datasets.dataset import as_dataset as as_dataset
from rightreasons.datasets.images.checking import check_data as check_data
from rightreasons.datasets.images.row_checks import DataProblem as DataProblem
from rightreasons.datasets.masks import corrupt_masks as corrupt_masks
from rightreasons.datasets.masks import mask_count as mask_count
from rightreasons.datasets.masks import mask_fraction as mask_fraction
from rightreasons.datasets.registry import describe as describe
from rightreasons.datasets.registry import load as load
from rightreasons.datasets.registry import names as names
from rightreasons.datasets.sets import *  # noqa: F403  (the list of data sets is there)
from rightreasons.datasets.wrappers import MaskBits as MaskBits
from rightreasons.datasets.wrappers import Selected as Selected
from rightreasons.datasets.wrappers import masked_input as masked_input

__all__ = [
    "Augmented",
    "Card",
    "DataProblem",
    "Dataset",
    "Imported",
    "InMemory",
    "MaskBits",
    "Selected",
    "Splits",
    "as_dataset",
    "check_data",
    "corrupt_masks",
    "describe",
    "export_masks",
    "import_masks",
    "load",
    "mask_count",
    "mask_fraction",
    "masked_input",
    "names",
]
__all__ += sets.__all__
__all__.sort()
