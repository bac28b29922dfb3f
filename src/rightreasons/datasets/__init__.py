"""Data sets: one data set = one file = one function that gives `Splits` with a card."""

from rightreasons.datasets.adapter import as_dataset as as_dataset
from rightreasons.datasets.augmented import Augmented as Augmented
from rightreasons.datasets.dataset import Card as Card
from rightreasons.datasets.dataset import Dataset as Dataset
from rightreasons.datasets.dataset import InMemory as InMemory
from rightreasons.datasets.dataset import Splits as Splits
from rightreasons.datasets.masks import corrupt_masks as corrupt_masks
from rightreasons.datasets.masks import mask_count as mask_count
from rightreasons.datasets.masks import mask_fraction as mask_fraction
from rightreasons.datasets.registry import describe as describe
from rightreasons.datasets.registry import load as load
from rightreasons.datasets.registry import names as names
from rightreasons.datasets.sets.background_challenge import (
    background_challenge as background_challenge,
)
from rightreasons.datasets.sets.biased_mnist import biased_mnist as biased_mnist
from rightreasons.datasets.sets.block_mnist import block_mnist as block_mnist
from rightreasons.datasets.sets.cats_vs_dogs import cats_vs_dogs as cats_vs_dogs
from rightreasons.datasets.sets.celeba_hair import celeba_hair as celeba_hair
from rightreasons.datasets.sets.cifar import cifar10 as cifar10
from rightreasons.datasets.sets.cifar import cifar100 as cifar100
from rightreasons.datasets.sets.decoy_derm import decoy_derm as decoy_derm
from rightreasons.datasets.sets.decoy_digits import decoy_digits as decoy_digits
from rightreasons.datasets.sets.decoy_ham import decoy_ham as decoy_ham
from rightreasons.datasets.sets.decoy_mnist import decoy_mnist as decoy_mnist
from rightreasons.datasets.sets.folder import folder as folder
from rightreasons.datasets.sets.half_decoy_mnist import half_decoy_mnist as half_decoy_mnist
from rightreasons.datasets.sets.image_folder import image_folder as image_folder
from rightreasons.datasets.sets.isic import isic as isic
from rightreasons.datasets.sets.isic2017 import isic2017 as isic2017
from rightreasons.datasets.sets.oxford_pets import oxford_pets as oxford_pets
from rightreasons.datasets.sets.plant import plant as plant
from rightreasons.datasets.sets.salient_imagenet import salient_imagenet as salient_imagenet
from rightreasons.datasets.sets.svhn import svhn as svhn
from rightreasons.datasets.sets.textured_mnist import textured_mnist as textured_mnist
from rightreasons.datasets.sets.waterbirds import waterbirds as waterbirds
from rightreasons.datasets.wrappers import MaskBits as MaskBits
from rightreasons.datasets.wrappers import Selected as Selected
from rightreasons.datasets.wrappers import masked_input as masked_input

__all__ = [
    "Augmented",
    "Card",
    "Dataset",
    "InMemory",
    "MaskBits",
    "Selected",
    "Splits",
    "as_dataset",
    "background_challenge",
    "biased_mnist",
    "block_mnist",
    "cats_vs_dogs",
    "celeba_hair",
    "cifar10",
    "cifar100",
    "corrupt_masks",
    "decoy_derm",
    "decoy_digits",
    "decoy_ham",
    "decoy_mnist",
    "describe",
    "folder",
    "half_decoy_mnist",
    "image_folder",
    "isic",
    "isic2017",
    "load",
    "mask_count",
    "mask_fraction",
    "masked_input",
    "names",
    "oxford_pets",
    "plant",
    "salient_imagenet",
    "svhn",
    "textured_mnist",
    "waterbirds",
]
