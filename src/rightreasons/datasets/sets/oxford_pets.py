"""Oxford-IIIT Pet: cats and dogs with an outline of each (Parkhi et al. 2012)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from rightreasons.core.checks import check_choice, check_fraction, check_integer
from rightreasons.core.progress import map_parallel
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.archives import JpegArchive
from rightreasons.datasets.images.files import check_data_dir, nearest_indices, read_image
from rightreasons.datasets.images.pixels import masked_pixel_splits
from rightreasons.datasets.splitting import stratified_split
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["SPECIES", "PetFiles", "find_pets", "oxford_pets"]

PET, BACKGROUND = 1, 2  # in trimaps; 3 is the border between them
ARCHIVE = "pets_128.npz"
FOLDERS = (Path(), Path("oxford-iiit-pet"))
LISTS = ("annotations/trainval.txt", "annotations/test.txt")
SPECIES = ("cat", "dog")
WORKERS = 2
CARD = Card(
    name="oxford_pets",
    description="Photographs of cats and dogs.",
    source="Oxford-IIIT Pet, O. M. Parkhi et al. 2012",
    licence="CC BY-SA 4.0",
    shortcut="None planted; what is behind the animal must not matter.",
    groups=SPECIES,
)


class PetFiles(NamedTuple):
    """What is known of the photographs before they are decoded, and how to decode them.

    Args:
        breed: Numbers of the breeds from 0, ``(N,)``.
        species: 0 for cats and 1 for dogs, ``(N,)``.
        is_train: Whether a photograph is in the official training part, ``(N,)``.
        breeds: Names of the breeds.
        read: Function from indices ``(n,)`` and a side to 8-bit images ``(n, side, side, 3)`` and
            trimaps ``(n, side, side)``.
    """

    breed: NDArray[np.int64]
    species: NDArray[np.int64]
    is_train: NDArray[np.bool_]
    breeds: tuple[str, ...]
    read: Callable[[NDArray[np.int64], int], tuple[NDArray[np.uint8], NDArray[np.uint8]]]


def oxford_pets(
    data_dir: str | PathLike[str],
    *,
    size: int = 128,
    task: str = "breed",
    border: str = "masked",
    validation_share: float = 0.1,
    seed: int = 0,
) -> Splits:
    """Cats and dogs; the mask is everything that is not animal.

    The official folder, or the one torchvision unpacks it to (``oxford-iiit-pet``)::

        images/NAME.jpg                   NAME is BREED_NUMBER
        annotations/trainval.txt          NAME, breed from 1, species (1 cat, 2 dog), a number
        annotations/test.txt
        annotations/trimaps/NAME.png      1 animal, 2 background, 3 border

    or else ``pets_128.npz``, the same photographs in 128 pixels. Images are squeezed to squares.
    The group is the species. The parts are the official ones, 3,680 to train and 3,669 to test;
    some of the training images validate.

    Args:
        data_dir: The folder.
        size: Side of the images.
        task: ``"breed"``, 37 classes as in the paper, or ``"species"``, two.
        border: Whether the border of an animal is ``"masked"``, as in the paper, or ``"free"``.
        validation_share: Fraction of the training images for validation; 0 for none.
        seed: Random seed for the validation split.

    Raises:
        DatasetNotFoundError: Neither the folders nor the archive are there.
        DatasetCorruptError: A file cannot be read.

    References:
        adachi2022learning, parkhi2012cats
    """
    check_integer("size", size)
    check_choice("task", task, ("breed", "species"))
    check_choice("border", border, ("masked", "free"))
    check_fraction("validation_share", validation_share, below_one=True)
    stream = random_stream(seed, "oxford_pets", "split")
    pets = find_pets(data_dir)
    images, trimaps = pets.read(np.arange(len(pets.breed)), size)
    kept = (PET,) if border == "masked" else (PET, 3)
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2)
    mask = torch.from_numpy(~np.isin(trimaps, kept)).unsqueeze(1)
    group = torch.from_numpy(pets.species)
    y = torch.from_numpy(pets.breed) if task == "breed" else group
    held_in = torch.from_numpy(np.flatnonzero(pets.is_train))
    test = torch.from_numpy(np.flatnonzero(~pets.is_train))
    sizes = [round(validation_share * len(held_in))]
    val, train = (
        held_in[rows] for rows in stratified_split(y[held_in], sizes=sizes, stream=stream)
    )
    rows_of = {"train": train, "test": test} | ({"val": val} if len(val) else {})
    parts = {
        name: (pixels[rows].contiguous(), mask[rows], y[rows], group[rows])
        for name, rows in rows_of.items()
    }
    classes = pets.breeds if task == "breed" else SPECIES
    return masked_pixel_splits(parts, replace(CARD, classes=classes))


def find_pets(data_dir: str | PathLike[str]) -> PetFiles:
    """Find the photographs in one of the forms that `oxford_pets` reads.

    Raises:
        DatasetNotFoundError: Neither the folders nor the archive are there.
        DatasetCorruptError: A table or the archive cannot be read.
    """
    root = check_data_dir(data_dir)
    folder = next((root / one for one in FOLDERS if (root / one / LISTS[0]).is_file()), None)
    if folder is not None:
        return _find_in_folder(folder)
    if (root / ARCHIVE).is_file():
        return _find_in_archive(root / ARCHIVE)
    raise DatasetNotFoundError(
        f"Expected the Oxford-IIIT Pet data in {root}, but found neither {LISTS[0]} (there or "
        f"in {FOLDERS[1]}) nor {ARCHIVE}. Unpack images.tar.gz and annotations.tar.gz there."
    )


def _find_in_archive(path: Path) -> PetFiles:
    columns = ["label", "species", "split", "trimap"]
    archive = JpegArchive(path, columns=columns, extras=["class_names"])

    def read(indices: NDArray[np.int64], size: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        trimaps = archive.columns["trimap"][indices]
        nearest = nearest_indices(trimaps.shape[1], size)
        return archive.images(indices, size=size), trimaps[:, nearest][:, :, nearest]

    return PetFiles(
        breed=archive.columns["label"].astype(np.int64),
        species=archive.columns["species"].astype(np.int64),
        is_train=archive.columns["split"] == 0,
        breeds=tuple(str(name) for name in archive.extras["class_names"]),
        read=read,
    )


def _find_in_folder(folder: Path) -> PetFiles:
    rows = []
    for is_train, file in zip((True, False), LISTS, strict=True):
        path = folder / file
        if not path.is_file():
            raise DatasetNotFoundError(f"Expected {path} beside {LISTS[0]}, but there is none.")
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = line.split()
            if len(fields) != 4 or not all(field.isdecimal() for field in fields[1:]):
                raise DatasetCorruptError(
                    f"Expected lines of {path} to be a name and three numbers, but got {line!r}."
                )
            rows.append((fields[0], int(fields[1]) - 1, int(fields[2]) - 1, is_train))

    def read(indices: NDArray[np.int64], size: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        images = np.empty((len(indices), size, size, 3), dtype=np.uint8)
        trimaps = np.empty((len(indices), size, size), dtype=np.uint8)

        def decode(number: int) -> None:
            name = rows[indices[number]][0]
            try:
                image = read_image(folder / "images" / f"{name}.jpg", size=(size, size), channels=3)
                with Image.open(folder / "annotations" / "trimaps" / f"{name}.png") as trimap:
                    small = trimap.resize((size, size), Image.Resampling.NEAREST)
            except (DatasetCorruptError, OSError, SyntaxError, ValueError) as error:
                raise DatasetCorruptError(
                    f"Expected an image and a trimap of {name} in {folder}, but got: {error}."
                ) from error
            images[number] = (255 * image).round().byte().permute(1, 2, 0).numpy()
            trimaps[number] = np.asarray(small)

        map_parallel(decode, len(indices), workers=WORKERS, description="decoding images")
        return images, trimaps

    names, breed, species, trained = zip(*rows, strict=True)
    titles = {number: name.rsplit("_", 1)[0] for name, number in zip(names, breed, strict=True)}
    return PetFiles(
        breed=np.array(breed, dtype=np.int64),
        species=np.array(species, dtype=np.int64),
        is_train=np.array(trained),
        breeds=tuple(titles.get(number, f"breed {number}") for number in range(max(titles) + 1)),
        read=read,
    )
