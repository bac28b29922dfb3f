"""Textures in classes: photographs of DTD where there are any, else drawn by formula."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rightreasons.datasets.image_file import read_image
from rightreasons.datasets.jpeg_archive import JpegArchive
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError
from rightreasons.setting import checked_choice

__all__ = ["SOURCES", "Textures", "read_textures"]

SOURCES = ("auto", "dtd", "dtd10", "procedural")
NUM_CLASSES = 10
DIGIT_CLASSES = (  # in the order of the digits
    *("banded", "dotted", "grid", "knitted", "paisley"),
    *("scaly", "striped", "veined", "woven", "zigzagged"),
)
FOLDERS = (Path("dtd", "images"), Path("dtd", "dtd", "images"), Path("images"))
ARCHIVE = "dtd10_128.npz"
SMALLEST_SIDE = 128
SUFFIXES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True)
class Textures:
    """Texture images in classes; digit d's own class is number d of both.

    Args:
        background: 8-bit images ``(n, side, side, 3)`` of each class, ten or more.
        digit: The same, ten.
        source: Where they are from.
    """

    background: tuple[NDArray[np.uint8], ...]
    digit: tuple[NDArray[np.uint8], ...]
    source: str


def read_textures(
    data_dir: Path, *, size: int, per_class: int, source: str, stream: np.random.Generator
) -> Textures:
    """Read or draw textures at least ``size`` pixels a side.

    ============== ===============================================================================
    source         what it is
    ============== ===============================================================================
    ``dtd``        the Describable Textures Dataset in ``dtd/images/CLASS/*.jpg``: the paper's ten
                   classes for digits, all others, in the order of the alphabet, for backgrounds
    ``dtd10``      ``dtd10_128.npz``, ten of its classes: for both, but never the same image
    ``procedural`` waves (backgrounds) and plaids (digits), each class with a direction and a
                   frequency of its own, in two random colours
    ``auto``       the first of these that is there
    ============== ===============================================================================

    Args:
        data_dir: Where to look.
        size: Of the pieces that will be cut from them.
        per_class: How many of each class, drawn at random.
        source: One of `SOURCES`.
        stream: Where random numbers come from.

    Raises:
        DatasetNotFoundError: The source is not there, or a class has too few images.
    """
    checked_choice("textures", source, SOURCES)
    side = max(SMALLEST_SIDE, size)
    folder = next((data_dir / one for one in FOLDERS if (data_dir / one / "banded").is_dir()), None)
    if source == "dtd" or (source == "auto" and folder is not None):
        if folder is None:
            raise DatasetNotFoundError(
                f"Expected the Describable Textures Dataset in {data_dir / FOLDERS[0]}, a folder "
                "for each class, but found no folder `banded`. Unpack dtd-r1.0.1.tar.gz there, or "
                "use textures='procedural'."
            )
        return _from_folders(folder, side, per_class, stream)
    archive = data_dir / ARCHIVE
    if source == "dtd10" or (source == "auto" and archive.is_file()):
        if not archive.is_file():
            raise DatasetNotFoundError(
                f"Expected {archive}, but there is none. Use textures='procedural'."
            )
        return _from_archive(archive, side, per_class, stream)
    return _drawn(side, per_class, stream)


def _from_folders(folder: Path, side: int, per_class: int, stream: np.random.Generator) -> Textures:
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    others = [name for name in names if name not in DIGIT_CLASSES]
    missing = [name for name in DIGIT_CLASSES if name not in names]
    if missing or len(others) < NUM_CLASSES:
        raise DatasetNotFoundError(
            f"Expected {folder} to have the 47 classes of DTD, but it has {len(others)} of those "
            f"for backgrounds, ten are needed, and no {', no '.join(missing) or 'folder less'}."
        )

    def read(name: str) -> NDArray[np.uint8]:
        paths = sorted(p for p in (folder / name).iterdir() if p.suffix.lower() in SUFFIXES)
        chosen = _chosen(len(paths), per_class, stream, name)
        try:
            images = [read_image(paths[n], size=(side, side), channels=3) for n in chosen]
        except DatasetCorruptError as error:
            raise DatasetCorruptError(
                f"Expected images of DTD in {folder / name}, but one of them {error}."
            ) from error
        return np.stack([(255 * one.permute(1, 2, 0)).byte().numpy() for one in images])

    return Textures(
        background=tuple(read(name) for name in others),
        digit=tuple(read(name) for name in DIGIT_CLASSES),
        source="DTD, M. Cimpoi et al. 2014",
    )


def _from_archive(path: Path, side: int, per_class: int, stream: np.random.Generator) -> Textures:
    archive = JpegArchive(path, columns=["label"])
    background, digit = [], []
    for number in range(NUM_CLASSES):
        places = np.flatnonzero(archive.columns["label"] == number)
        chosen = places[_chosen(len(places), 2 * per_class, stream, f"class {number} of {path}")]
        images = archive.images(chosen, size=side)
        background.append(images[:per_class])
        digit.append(images[per_class:])
    source = f"DTD, M. Cimpoi et al. 2014, ten classes, here from {path.name}"
    return Textures(tuple(background), tuple(digit), source)


def _chosen(
    num_images: int, num_wanted: int, stream: np.random.Generator, name: str
) -> NDArray[np.int64]:
    if num_images < num_wanted:
        raise DatasetNotFoundError(
            f"Expected {num_wanted} textures of {name}, but found {num_images}. Ask for fewer "
            "`textures_per_class`."
        )
    return stream.permutation(num_images)[:num_wanted]


def _drawn(side: int, per_class: int, stream: np.random.Generator) -> Textures:
    def classes(plaid: bool) -> tuple[NDArray[np.uint8], ...]:
        return tuple(
            np.stack([_texture(number, plaid, side, stream) for _ in range(per_class)])
            for number in range(NUM_CLASSES)
        )

    return Textures(classes(False), classes(True), "textures drawn by formula")


def _texture(number: int, plaid: bool, side: int, stream: np.random.Generator) -> NDArray[np.uint8]:
    angle = np.pi * (number + stream.normal(0, 0.15)) / NUM_CLASSES
    frequency = 2 * np.pi * (10 if number % 2 else 18) / SMALLEST_SIDE * stream.uniform(0.85, 1.15)
    rows, columns = np.mgrid[:side, :side]
    along = columns * np.cos(angle) + rows * np.sin(angle)
    across = rows * np.cos(angle) - columns * np.sin(angle)
    phases = stream.uniform(0, 2 * np.pi, size=3)
    bend = 2.0 * np.sin(across * frequency / 5 + phases[0])
    wave = np.cos(frequency * along + bend + phases[1])
    if plaid:
        wave = (wave + np.cos(frequency * across + phases[2])) / 2
    share = (0.5 + 0.5 * wave)[..., None]
    colours = stream.uniform(0, 255, size=(2, 3))
    noise = stream.normal(0, 8, size=(side, side, 1))
    mixed = share * colours[0] + (1 - share) * colours[1] + noise
    pixels: NDArray[np.uint8] = np.clip(mixed, 0, 255).astype(np.uint8)
    return pixels
