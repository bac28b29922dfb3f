"""Salient ImageNet: photographs with maps of core and of spurious features."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.dealing import dealt_out
from rightreasons.datasets.image_file import image_size, read_image
from rightreasons.datasets.image_splits import Reading
from rightreasons.datasets.parallel import in_parallel
from rightreasons.datasets.random_stream import random_stream
from rightreasons.datasets.salient_map import SalientImage, salient_images
from rightreasons.datasets.splitting import in_memory_splits
from rightreasons.errors import DatasetCorruptError, InvalidSettingError
from rightreasons.setting import checked_choice, checked_number
from rightreasons.types import Batch

__all__ = ["salient_imagenet"]

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
    numbers = [checked_number("classes", number, low=0, high=999) for number in classes]
    if len(set(numbers)) != len(numbers) or len(numbers) < 2:
        raise InvalidSettingError(
            f"Expected `classes` to be two or more different ImageNet numbers, but got {numbers}."
        )
    checked_number("size", size, low=1)
    checked_choice("test_part", test_part, TEST_PARTS)
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

    found = in_parallel(
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
