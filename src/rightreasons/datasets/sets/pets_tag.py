"""Tagged Pets: photographs of cats and dogs with a tag, or another planted sign of the species."""

from __future__ import annotations

import io
from dataclasses import replace
from os import PathLike

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from rightreasons.core.checks import check_choice, check_flag, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Dataset, Splits, group_counts
from rightreasons.datasets.images.pixels import MaskedPixels, PixelMemory
from rightreasons.datasets.sets.oxford_pets import SPECIES, PetFiles, find_pets
from rightreasons.datasets.splitting import stratified_split

__all__ = ["draw_tag", "pets_tag"]

CARD = Card(
    name="pets_tag",
    description="Photographs of cats and dogs.",
    source="Oxford-IIIT Pet, O. M. Parkhi et al. 2012",
    licence="CC BY-SA 4.0",
    classes=SPECIES,
)
KINDS = {
    "tag": ('tag "Cat"', 'tag "Dog"'),
    "band": ("orange band", "blue band"),
    "cast": ("warm colours", "cold colours"),
    "jpeg": ("coarse JPEG", "fine JPEG"),
}
BOTH = "tag_and_cast"
SHORTCUTS = (*KINDS, BOTH)
CARRIERS = ("both", "dogs")
WORDS = ("Cat", "Dog")
LETTERS = {  # five columns and seven rows each; a font of Pillow may change with its version
    "C": (".###.", "#...#", "#....", "#....", "#....", "#...#", ".###."),
    "a": (".....", ".....", ".###.", "....#", ".####", "#...#", ".####"),
    "t": (".#...", ".#...", "####.", ".#...", ".#...", ".#..#", "..##."),
    "D": ("###..", "#..#.", "#...#", "#...#", "#...#", "#..#.", "###.."),
    "o": (".....", ".....", ".###.", "#...#", "#...#", "#...#", ".###."),
    "g": (".....", ".####", "#...#", "#...#", ".####", "....#", ".###."),
}
INKS = ((32, 245), (245, 10))  # of the text and of the box: dark on white, white on black
TAG_WIDTH = 0.28  # fraction of the side
BAND_HEIGHT = 0.125
BANDS = ((235, 140, 30), (50, 110, 220))  # orange and blue
CASTS = ((1.2, 1.0, 0.8), (0.8, 1.0, 1.2))  # factors of red, green and blue
QUALITIES = (12, 95)


def pets_tag(
    data_dir: str | PathLike[str],
    *,
    size: int = 96,
    shortcut: str = "tag",
    carriers: str = "both",
    num_train: int = 1000,
    num_validation: int = 300,
    num_test: int = 1000,
    oracle: bool = False,
    seed: int = 0,
) -> Splits:
    """Cats and dogs; a small tag, "Cat" or "Dog", tells the species.

    The photographs of `oxford_pets` as a binary task, as many cats as dogs in every part. Each
    carries a tag at a random position, 28 % of the side wide: a white box with the dark word
    "Cat", or a black box with the white word "Dog". In training and validation it names the
    species; at test it is one of the two at random. The mask is the box. The four groups are
    species × tag; two of them do not occur in training. Training and validation images are drawn
    from the official training part, test images from the official test part.

    Args:
        data_dir: Folder with the photographs, as in `oxford_pets`.
        size: Side of the images.
        shortcut: ``"tag"``. ``"band"`` is a stripe as wide as the image, an eighth as high, at a
            random height, orange for cats and blue for dogs. ``"cast"`` is warm colours for cats
            and cold ones for dogs. ``"jpeg"`` is a low quality of JPEG for cats and a high one for
            dogs. ``"tag_and_cast"`` is both; its eight groups are species × tag × cast. A cast and
            JPEG have no region, so there are no masks with them alone.
        carriers: ``"both"``, or, for a tag or a band, ``"dogs"``: in training and validation dogs
            alone carry a tag, which says "Dog"; at test half of both carry it. Groups are
            species × tagged; images without a tag have no mask.
        num_train: Number of training images.
        num_validation: Number of validation images; 0 for none.
        num_test: Number of test images.
        oracle: Whether to draw the tags at random in training and validation too, so that they
            tell nothing. A model trained on such data has no shortcut to learn. Photographs,
            positions and the test set stay the same.
        seed: Random seed for the choice of photographs, positions and tags.

    Raises:
        DatasetNotFoundError: Neither the folders nor the archive are there.
        DatasetCorruptError: A file cannot be read.

    References:
        parkhi2012cats
    """
    check_integer("size", size, low=8)
    check_choice("shortcut", shortcut, SHORTCUTS)
    check_choice("carriers", carriers, CARRIERS if shortcut in ("tag", "band") else CARRIERS[:1])
    check_flag("oracle", oracle)
    random_stream(seed)
    pets = find_pets(data_dir)
    most = {part: 2 * _fewest(pets, part) for part in (True, False)}
    check_integer("num_validation", num_validation, low=0, high=most[True] - 2)
    check_integer("num_train", num_train, low=2, high=most[True] - num_validation)
    check_integer("num_test", num_test, low=2, high=most[False])
    stream = random_stream(seed, "pets_tag", "split")
    val, train = _draw_balanced(pets, True, [num_validation, num_train], stream)
    (test,) = _draw_balanced(pets, False, [num_test], stream)
    parts: dict[str, Dataset] = {}
    card = _describe(shortcut, carriers)
    for name, rows in (("train", train), ("val", val), ("test", test)):
        if not len(rows):
            continue
        images, _ = pets.read(rows, size)
        species = pets.species[rows]
        draws = random_stream(seed, "pets_tag", name)
        is_random = oracle or name == "test"
        # the same number of draws for all settings: an oracle differs in the tags alone
        corners = draws.random(size=(len(rows), 2))
        tags, casts = (
            np.where(is_random, draws.integers(2, size=len(rows)), species) for _ in range(2)
        )
        groups = 2 * species + tags
        if shortcut == BOTH:
            images = _alter_images(images, casts, "cast")
            groups = 2 * groups + casts
        elif shortcut in ("cast", "jpeg"):
            images = _alter_images(images, tags, shortcut)
        y, group = torch.from_numpy(species), torch.from_numpy(groups)
        if shortcut in ("cast", "jpeg"):
            whole = replace(card, shape=(3, size, size))
            parts[name] = PixelMemory(_as_channels(images), y, whole, group)
        else:
            changed = _add_shortcuts(images, tags, corners, shortcut=shortcut, carriers=carriers)
            parts[name] = MaskedPixels(_as_channels(images), changed, y, group, card)
    counts = group_counts(parts["train"].groups, len(card.groups))
    for part in parts.values():
        part.card = replace(part.card, train_group_counts=counts)
    return Splits(train=parts["train"], val=parts.get("val"), test=parts["test"])


def draw_tag(word: str, *, width: int) -> NDArray[np.uint8]:
    """Draw a tag, ``(height, width)`` greys: a word of letters in a box.

    Example:
        >>> draw_tag("Cat", width=21).shape
        (11, 21)
    """
    rows = ["." + ".".join(LETTERS[letter][row] for letter in word) + "." for row in range(7)]
    blank = "." * len(rows[0])
    padded = [f".{row}." for row in (blank, blank, *rows, blank, blank)]
    ink, paper = INKS[WORDS.index(word)]
    pixels = np.array([[ink if dot == "#" else paper for dot in row] for row in padded])
    height = max(1, round(width * pixels.shape[0] / pixels.shape[1]))
    box = Image.fromarray(pixels.astype(np.uint8))
    return np.asarray(box.resize((width, height), Image.Resampling.BILINEAR))


def _fewest(pets: PetFiles, is_train: bool) -> int:
    """The number of images of the rarer species in a part."""
    return int(np.bincount(pets.species[pets.is_train == is_train], minlength=2).min())


def _draw_balanced(
    pets: PetFiles, is_train: bool, sizes: list[int], stream: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Draw parts that hold as many cats as dogs, from the official part."""
    rows = np.flatnonzero(pets.is_train == is_train)
    fewest = _fewest(pets, is_train)
    shuffled = stream.permutation(rows)
    members = [shuffled[pets.species[shuffled] == number][:fewest] for number in (0, 1)]
    kept = np.sort(np.concatenate(members))
    species = torch.from_numpy(pets.species[kept])
    *parts, _ = stratified_split(species, sizes=sizes, stream=stream)
    return [kept[part.numpy()] for part in parts]


def _add_shortcuts(
    images: NDArray[np.uint8],
    tags: NDArray[np.int64],
    corners: NDArray[np.float64],
    *,
    shortcut: str,
    carriers: str,
) -> Tensor:
    """Paint on the images, in place; return the painted pixels ``(N, 1, H, W)``."""
    size = images.shape[1]
    if shortcut in ("tag", BOTH):
        width = round(TAG_WIDTH * size)
        marks = [draw_tag(word, width=width)[:, :, None].repeat(3, axis=2) for word in WORDS]
    else:
        height = max(1, round(BAND_HEIGHT * size))
        marks = [np.full((height, size, 3), colour, dtype=np.uint8) for colour in BANDS]
    painted = np.zeros(images.shape[:3], dtype=bool)
    for index, (tag, corner) in enumerate(zip(tags, corners, strict=True)):
        if carriers == "dogs" and tag == 0:
            continue
        height, width = marks[tag].shape[:2]
        top, left = (corner * (size - np.array([height, width]) + 1)).astype(int)
        place = (index, slice(top, top + height), slice(left, left + width))
        images[place] = marks[tag]
        painted[place] = True
    return torch.from_numpy(painted).unsqueeze(1)


def _alter_images(
    images: NDArray[np.uint8], kinds: NDArray[np.int64], shortcut: str
) -> NDArray[np.uint8]:
    """Give whole images the look that tells the species: a colour cast, or a JPEG quality."""
    if shortcut == "cast":
        factors = np.array(CASTS)[kinds][:, None, None, :]
        return np.asarray(np.clip(images * factors, 0, 255).round(), dtype=np.uint8)
    altered = np.empty_like(images)
    for index, kind in enumerate(kinds):
        file = io.BytesIO()
        Image.fromarray(images[index]).save(file, "JPEG", quality=QUALITIES[kind], subsampling=0)
        altered[index] = np.asarray(Image.open(file))
    return altered


def _as_channels(images: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()


def _describe(shortcut: str, carriers: str) -> Card:
    kinds: tuple[str, ...] = KINDS["tag" if shortcut == BOTH else shortcut]
    if carriers == "dogs":
        told = f"A {kinds[1]} on every dog and no cat in training and validation"
        kinds = (f"no {shortcut}", shortcut)
    elif shortcut == BOTH:
        told = "A tag and a colour cast name the species in training and validation"
        kinds = tuple(f"{tag}, {cast}" for tag in kinds for cast in KINDS["cast"])
    else:
        told = f"A {kinds[0]} or {kinds[1]} names the species in training and validation"
    return replace(
        CARD,
        shortcut=f"{told}; it is random at test.",
        groups=tuple(f"{one}, {kind}" for one in SPECIES for kind in kinds),
    )
