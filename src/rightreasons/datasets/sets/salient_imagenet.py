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
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.images.files import image_size, read_image
from rightreasons.datasets.images.splits import Reading
from rightreasons.datasets.parallel import map_parallel
from rightreasons.datasets.splitting import dealt_out, in_memory_splits
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError
from rightreasons.types import Batch

__all__ = ["LAYOUT", "SalientImage", "salient_imagenet", "salient_images"]

VOTES = "discover_spurious_features.csv"
MAPS = "salient_imagenet_dataset"
IMAGES = "ILSVRC2012/train"
LAYOUT = (
    f"{VOTES}, {MAPS}/WNID/image_names_map.csv, {MAPS}/WNID/feature_K/NAME.JPEG and "
    f"{IMAGES}/WNID/NAME.JPEG"
)
SPURIOUS_ANSWERS = ("background", "separate_object")
NUM_VOTES = 3  # of five


@dataclass(frozen=True)
class SalientImage:
    """An image, and the maps of the features that make it core or spurious."""

    file: Path
    maps: tuple[Path, ...]
    label: int
    spurious: bool


def salient_images(root: Path, classes: Sequence[int]) -> tuple[list[SalientImage], list[str]]:
    """List the images of some ImageNet classes that have feature maps.

    A feature is spurious if at least three of its five judges called it background or a separate
    object. An image with any spurious feature is listed with the maps of these; the others with
    those of their core features.

    Args:
        root: The folder, see `LAYOUT`.
        classes: Their ImageNet numbers; labels are counted in this order.

    Returns:
        The images, and the WordNet number of each class.

    Raises:
        DatasetNotFoundError: A file is not there.
        DatasetCorruptError: A table has other columns, or knows nothing of a class.
    """
    wordnet, votes = _votes(root)
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
        for row in _rows(folder / "image_names_map.csv", root):
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


def _votes(root: Path) -> tuple[dict[int, str], dict[tuple[int, int], int]]:
    """The WordNet number of each class, and how many judges call each feature spurious."""
    wordnet: dict[int, str] = {}
    votes: dict[tuple[int, int], int] = defaultdict(int)
    try:
        for row in _rows(root / VOTES, root):
            number, feature = int(row["Input.class_index"]), int(row["Input.feature_index"])
            wordnet[number] = row["Input.wordnet_id"]
            votes[number, feature] += row["Answer.main"] in SPURIOUS_ANSWERS
    except (KeyError, ValueError) as error:
        raise DatasetCorruptError(
            f"Expected {root / VOTES} to have the columns Input.class_index, Input.feature_index, "
            f"Input.wordnet_id and Answer.main, but got: {error}."
        ) from error
    return wordnet, dict(votes)


def _rows(path: Path, root: Path) -> list[dict[str, str]]:
    if not path.is_file():
        raise DatasetNotFoundError(
            f"Expected Salient ImageNet in {root}: {LAYOUT}; but there is no "
            f"{path.relative_to(root)}. Pass the folder that has these."
        )
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines)
        return [{key: value for key, value in row.items() if key and value} for row in reader]


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
CARD = Card(
    name="salient_imagenet",
    description="Photographs of ImageNet with maps of core and spurious features.",
    source="Salient ImageNet, S. Singla and S. Feizi 2022; ImageNet, O. Russakovsky et al. 2015",
    licence="non-commercial research, maps and images",
    shortcut="Backgrounds and other objects, as five judges of each feature map saw them.",
    groups=("core features", "spurious features"),
)


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

    The mask of an image with spurious features (three of five judges said so) is the brightest
    of their maps, soft. These images are dealt out to training, validation and test, stratified
    by class. Images with core features only are all for the test; their mask is what the
    brightest of the core maps leaves dark. The group says which of the two an image is.

    Differs from the paper: its code scales whole photographs to 224 pixels but their maps by a
    crop of the middle, so that the two do not lie on each other, gives two classes one label and
    tests on core images some of which it may have trained on. Here image and map show the same
    crop, and no image is in two parts.

    Args:
        data_dir: The folder.
        classes: ImageNet numbers, the paper's six by default.
        size: Side in pixels.
        test_part: Which images to test on: ``"spurious"``, ``"core"`` or ``"both"``.
        seed: Of the split.
        test_share: Of the images with spurious features.
        validation_share: Of the images with spurious features; 0 for none.
        workers: Threads that decode; the number of processors, at most 4, if None.

    Raises:
        DatasetNotFoundError: The files are not there.
        DatasetCorruptError: They cannot be read or contradict each other.

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
    dealt = dealt_out(
        torch.tensor([image.label for image in spurious], dtype=torch.long),
        test_share=test_share,
        validation_share=validation_share,
        stream=stream,
    )
    parts = {
        name: [image for image, split in zip(spurious, dealt, strict=True) if split == name]
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
    read = {name: _read(some, size, reading) for name, some in parts.items() if some}
    names = (CLASSES.get(number, word) for number, word in zip(numbers, wordnet, strict=True))
    return in_memory_splits(
        train=read["train"],
        val=read.get("val"),
        test=read["test"],
        card=replace(CARD, classes=tuple(names)),
    )


def _read(images: Sequence[SalientImage], size: int, reading: Reading) -> Batch:
    def decoded(place: int) -> tuple[Tensor, Tensor]:
        image = images[place]
        with _named(image.file):
            x = _middle(image.file, size)
        brightest = torch.zeros(1, size, size)
        for path in image.maps:
            with _named(path):
                shown = read_image(path, size=(size, size), channels=1)
            brightest = torch.maximum(brightest, shown)
        return x, brightest if image.spurious else 1 - brightest

    found = map_parallel(
        decoded, len(images), workers=reading.num_workers, description="decoding images"
    )
    return Batch(
        x=torch.stack([x for x, _ in found]),
        y=torch.tensor([image.label for image in images]),
        mask=torch.stack([mask for _, mask in found]),
        group=torch.tensor([SPURIOUS if image.spurious else CORE for image in images]),
    )


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Put the file before the reason why it cannot be read."""
    try:
        yield
    except DatasetCorruptError as error:
        raise DatasetCorruptError(
            f"Expected {path} to be an image, but got: {error}. Copy it anew."
        ) from error


def _middle(path: Path, size: int) -> Tensor:
    """The photograph, its shorter side 8/7 of ``size``, cropped to the middle."""
    height, width = image_size(path)
    scale = size * RESIZED / min(height, width)
    scaled = max(size, round(height * scale)), max(size, round(width * scale))
    image = read_image(path, size=scaled, channels=3)
    top, left = (scaled[0] - size) // 2, (scaled[1] - size) // 2
    return image[:, top : top + size, left : left + size]
