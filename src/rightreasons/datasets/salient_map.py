"""Which feature maps of Salient ImageNet show what does not belong to the object, and where."""

import csv
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["LAYOUT", "SalientImage", "salient_images"]

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
