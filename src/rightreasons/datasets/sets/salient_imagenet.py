"""Salient ImageNet: photographs with maps of core and of spurious features."""

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from rightreasons.core.checks import check_choice, check_integer
from rightreasons.core.progress import map_parallel
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.files import image_size, read_image
from rightreasons.datasets.images.splits import Reading
from rightreasons.datasets.splitting import assign_splits, in_memory_splits
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError
from rightreasons.types import Batch

__all__ = ["LAYOUT", "SalientImage", "salient_imagenet", "salient_images"]

CARD = Card(
    name="salient_imagenet",
    description="Photographs of ImageNet with maps of core and spurious features.",
    source="Salient ImageNet, S. Singla and S. Feizi 2022; ImageNet, O. Russakovsky et al. 2015",
    licence="non-commercial research, maps and images",
    shortcut="Backgrounds and other objects, as five judges of each feature map saw them.",
    groups=("core features", "spurious features"),
)
VOTES = "discover_spurious_features.csv"
MAPS = "salient_imagenet_dataset"
IMAGES = "ILSVRC2012/train"
LAYOUT = (
    f"{VOTES}, {MAPS}/WNID/image_names_map.csv, {MAPS}/WNID/feature_K/NAME.JPEG and "
    f"{IMAGES}/WNID/NAME.JPEG"
)
SPURIOUS_ANSWERS = ("background", "separate_object")
NUM_VOTES = 3  # of five judges
CLASSES = {  # of the paper
    306: "rhinoceros beetle",
    142: "dowitcher",
    270: "white wolf",
    319: "dragonfly",
    366: "gorilla",
    389: "barracouta",
}
TEST_PARTS = ("both", "spurious", "core")
CORE, SPURIOUS = 0, 1
RESIZED = 256 / 224  # the maps show the middle 224 pixels of an image of 256


def salient_imagenet(
    data_dir: str | PathLike[str],
    *,
    classes: Sequence[int] = tuple(CLASSES),
    size: int = 224,
    test_part: str = "both",
    seed: int = 0,
    test_share: float = 0.25,
    validation_share: float = 0.1,
    workers: int | None = None,
) -> Splits:
    """Photographs of six ImageNet classes, masks from maps of spurious features.

    The folder, as Singla and Feizi published it, with the table of votes and ImageNet beside it::

        discover_spurious_features.csv                        votes, from mturk_results
        salient_imagenet_dataset/WNID/image_names_map.csv     a column of names for each feature
        salient_imagenet_dataset/WNID/feature_K/NAME.JPEG     where the feature is, 224×224
        ILSVRC2012/train/WNID/NAME.JPEG                       the photographs

    A feature is spurious if three of its five judges said so. The soft mask of an image with
    spurious features is the pixelwise maximum of their maps. These images are split into
    training, validation and test, stratified by class. Images with core features only are all for
    the test; their mask is one minus the maximum of the core maps. The two groups are images with
    core features only and images with spurious features.

    Differs from the paper: its code resizes whole photographs to 224 pixels but crops their maps
    to the middle, so that the two do not match. It gives two classes one label and may test on
    core images of the training data. Here image and map show the same crop, and no image is in
    two parts.

    Args:
        data_dir: The folder.
        classes: ImageNet numbers, the paper's six by default.
        size: Side in pixels.
        test_part: The test images: ``"spurious"``, ``"core"`` or ``"both"``.
        seed: Random seed for the split.
        test_share: Fraction of the images with spurious features for the test.
        validation_share: Fraction of the images with spurious features for validation; 0 for
            none.
        workers: Number of threads that decode; the number of processors, at most 4, if None.

    Raises:
        DatasetNotFoundError: A file is not there.
        DatasetCorruptError: Files cannot be read or contradict each other.

    References:
        ghitu2025model, singla2022salient
    """
    numbers = [check_integer("classes", number, low=0, high=999) for number in classes]
    if len(set(numbers)) != len(numbers) or len(numbers) < 2:
        raise InvalidSettingError(
            f"Expected `classes` to be two or more different ImageNet numbers, but got {numbers}."
        )
    check_integer("size", size, low=1)
    check_choice("test_part", test_part, TEST_PARTS)
    reading = Reading(workers=workers)
    stream = random_stream(seed, "salient_imagenet", "split")
    root = Path(data_dir).expanduser()
    images, wordnet = salient_images(root, numbers)
    spurious = [image for image in images if image.spurious]
    assigned = assign_splits(
        torch.tensor([image.label for image in spurious], dtype=torch.long),
        test_share=test_share,
        validation_share=validation_share,
        stream=stream,
    )
    parts = {
        name: [image for image, split in zip(spurious, assigned, strict=True) if split == name]
        for name in ("train", "val", "test")
    }
    core = [image for image in images if not image.spurious]
    parts["test"] = {"both": parts["test"] + core, "spurious": parts["test"], "core": core}[
        test_part
    ]
    if not parts["test"]:
        raise InvalidSettingError(
            f"Expected `test_part` to have images, but {root} has none for {test_part!r}."
        )
    batches = {name: _read_part(part, size, reading) for name, part in parts.items() if part}
    names = (CLASSES.get(number, word) for number, word in zip(numbers, wordnet, strict=True))
    return in_memory_splits(
        train=batches["train"],
        val=batches.get("val"),
        test=batches["test"],
        card=replace(CARD, classes=tuple(names)),
    )


@dataclass(frozen=True)
class SalientImage:
    """An image and the maps of its spurious features or, if it has none, its core features."""

    file: Path
    maps: tuple[Path, ...]
    label: int
    spurious: bool


def salient_images(root: Path, classes: Sequence[int]) -> tuple[list[SalientImage], list[str]]:
    """List the images of some ImageNet classes that have feature maps.

    A feature is spurious if at least three of its five judges called it background or a separate
    object. An image with a spurious feature has the maps of its spurious features, any other
    image those of its core features.

    Args:
        root: The folder, with the files of `LAYOUT`.
        classes: ImageNet numbers of the classes; labels are in this order.

    Returns:
        The images, and the WordNet number of each class.

    Raises:
        DatasetNotFoundError: A file is not there.
        DatasetCorruptError: A table lacks a column or a class.
    """
    wordnet, votes = _read_votes(root)
    unknown = [number for number in classes if number not in wordnet]
    if unknown:
        raise DatasetCorruptError(
            f"Expected votes on the classes {', '.join(map(str, classes))} in {root / VOTES}, but "
            f"it has none on {', '.join(map(str, unknown))}."
        )
    images = []
    for label, number in enumerate(classes):
        folder = root / MAPS / wordnet[number]
        features: dict[str, list[int]] = defaultdict(list)
        for row in _read_rows(folder / "image_names_map.csv", root):
            for feature, name in row.items():
                if feature.isdecimal() and (number, int(feature)) in votes:
                    features[name].append(int(feature))
        for name in sorted(features):
            spurious = [one for one in features[name] if votes[number, one] >= NUM_VOTES]
            shown = spurious or features[name]
            maps = tuple(folder / f"feature_{one}" / f"{name}.JPEG" for one in sorted(set(shown)))
            file = root / IMAGES / wordnet[number] / f"{name}.JPEG"
            images.append(SalientImage(file, maps, label, bool(spurious)))
    return images, [wordnet[number] for number in classes]


def _read_part(images: Sequence[SalientImage], size: int, reading: Reading) -> Batch:
    def decode(index: int) -> tuple[Tensor, Tensor]:
        image = images[index]
        with _name_file(image.file):
            x = _read_middle(image.file, size)
        brightest = torch.zeros(1, size, size)
        for path in image.maps:
            with _name_file(path):
                feature_map = read_image(path, size=(size, size), channels=1)
            brightest = torch.maximum(brightest, feature_map)
        return x, brightest if image.spurious else 1 - brightest

    pairs = map_parallel(
        decode, len(images), workers=reading.num_workers, description="decoding images"
    )
    return Batch(
        x=torch.stack([x for x, _ in pairs]),
        y=torch.tensor([image.label for image in images]),
        mask=torch.stack([mask for _, mask in pairs]),
        group=torch.tensor([SPURIOUS if image.spurious else CORE for image in images]),
    )


@contextmanager
def _name_file(path: Path) -> Iterator[None]:
    """Put the file before the message of a `DatasetCorruptError`."""
    try:
        yield
    except DatasetCorruptError as error:
        raise DatasetCorruptError(
            f"Expected {path} to be an image, but got: {error}. Copy it anew."
        ) from error


def _read_middle(path: Path, size: int) -> Tensor:
    """Read a photograph, resize its shorter side to 8/7 of ``size`` and crop the middle."""
    height, width = image_size(path)
    scale = size * RESIZED / min(height, width)
    scaled = max(size, round(height * scale)), max(size, round(width * scale))
    image = read_image(path, size=scaled, channels=3)
    top, left = (scaled[0] - size) // 2, (scaled[1] - size) // 2
    return image[:, top : top + size, left : left + size]


def _read_votes(root: Path) -> tuple[dict[int, str], dict[tuple[int, int], int]]:
    """Read the WordNet number of each class, and the votes that a feature is spurious."""
    wordnet: dict[int, str] = {}
    votes: dict[tuple[int, int], int] = defaultdict(int)
    try:
        for row in _read_rows(root / VOTES, root):
            number, feature = int(row["Input.class_index"]), int(row["Input.feature_index"])
            wordnet[number] = row["Input.wordnet_id"]
            votes[number, feature] += row["Answer.main"] in SPURIOUS_ANSWERS
    except (KeyError, ValueError) as error:
        raise DatasetCorruptError(
            f"Expected {root / VOTES} to have the columns Input.class_index, Input.feature_index, "
            f"Input.wordnet_id and Answer.main, but got: {error}."
        ) from error
    return wordnet, dict(votes)


def _read_rows(path: Path, root: Path) -> list[dict[str, str]]:
    if not path.is_file():
        raise DatasetNotFoundError(
            f"Expected Salient ImageNet in {root}: {LAYOUT}; but there is no "
            f"{path.relative_to(root)}. Pass the folder that has these."
        )
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines)
        return [{key: value for key, value in row.items() if key and value} for row in reader]
