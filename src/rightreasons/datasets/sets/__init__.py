"""One data set = one file. This list is the only one: it feeds the registry and the exports."""

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
from rightreasons.datasets.sets.decoy_imdb import decoy_imdb as decoy_imdb
from rightreasons.datasets.sets.decoy_mnist import decoy_mnist as decoy_mnist
from rightreasons.datasets.sets.decoy_sst import decoy_sst as decoy_sst
from rightreasons.datasets.sets.eraser_movies import eraser_movies as eraser_movies
from rightreasons.datasets.sets.fairness import adult as adult
from rightreasons.datasets.sets.fairness import compas as compas
from rightreasons.datasets.sets.fairness import german_credit as german_credit
from rightreasons.datasets.sets.folder import folder as folder
from rightreasons.datasets.sets.half_decoy_mnist import half_decoy_mnist as half_decoy_mnist
from rightreasons.datasets.sets.hatexplain import hatexplain as hatexplain
from rightreasons.datasets.sets.image_folder import image_folder as image_folder
from rightreasons.datasets.sets.imdb import imdb as imdb
from rightreasons.datasets.sets.isic import isic as isic
from rightreasons.datasets.sets.isic2017 import isic2017 as isic2017
from rightreasons.datasets.sets.isic_patches import isic_patches as isic_patches
from rightreasons.datasets.sets.oxford_pets import oxford_pets as oxford_pets
from rightreasons.datasets.sets.pets_tag import pets_tag as pets_tag
from rightreasons.datasets.sets.plant import plant as plant
from rightreasons.datasets.sets.salient_imagenet import salient_imagenet as salient_imagenet
from rightreasons.datasets.sets.svhn import svhn as svhn
from rightreasons.datasets.sets.table import table as table
from rightreasons.datasets.sets.text import text as text
from rightreasons.datasets.sets.textured_mnist import textured_mnist as textured_mnist
from rightreasons.datasets.sets.waterbirds import waterbirds as waterbirds

__all__ = [
    "adult",
    "background_challenge",
    "biased_mnist",
    "block_mnist",
    "cats_vs_dogs",
    "celeba_hair",
    "cifar10",
    "cifar100",
    "compas",
    "decoy_derm",
    "decoy_digits",
    "decoy_ham",
    "decoy_imdb",
    "decoy_mnist",
    "decoy_sst",
    "eraser_movies",
    "folder",
    "german_credit",
    "half_decoy_mnist",
    "hatexplain",
    "image_folder",
    "imdb",
    "isic",
    "isic2017",
    "isic_patches",
    "oxford_pets",
    "pets_tag",
    "plant",
    "salient_imagenet",
    "svhn",
    "table",
    "text",
    "textured_mnist",
    "waterbirds",
]
