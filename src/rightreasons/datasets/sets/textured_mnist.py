"""Textured MNIST: a texture on each digit and another behind it (Adachi & Yamaguchi 2022)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from rightreasons.core.checks import check_choice, check_flag, check_fraction, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Splits
from rightreasons.datasets.images.archives import JpegArchive
from rightreasons.datasets.images.files import list_images, read_image
from rightreasons.datasets.images.pixels import masked_pixel_splits
from rightreasons.datasets.images.textures import draw_texture
from rightreasons.datasets.sets.mnist import DIGITS_CARD, read_mnist
from rightreasons.datasets.splitting import stratified_split
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

__all__ = ["SOURCES", "Textures", "read_textures", "textured_mnist"]

CARD = replace(
    DIGITS_CARD,
    name="textured_mnist",
    description="MNIST digits made of one texture, on another.",
    source=f"{DIGITS_CARD.source}; after Adachi & Yamaguchi 2022",
    licence="MNIST: CC BY-SA 3.0; photographs of textures: for research",
    shortcut=(
        "The class of the background's texture: it tells the digit in training and validation, "
        "and is drawn at random at test."
    ),
)
SOURCES = ("auto", "dtd", "dtd10", "procedural")
NUM_CLASSES, MOST_CLASSES = 10, 37  # of digits; behind digits in the paper
DIGIT_CLASSES = (  # in the order of the digits
    *("banded", "dotted", "grid", "knitted", "paisley"),
    *("scaly", "striped", "veined", "woven", "zigzagged"),
)
FOLDERS = (Path("dtd", "images"), Path("dtd", "dtd", "images"), Path("images"))
ARCHIVE = "dtd10_128.npz"
SMALLEST_SIDE = 128
TOGETHER = 256  # images made at once


def textured_mnist(
    data_dir: str | PathLike[str],
    *,
    size: int = 48,
    digit_size: int | None = None,
    background_randomness: float = 0.0,
    digit_randomness: float = 1.0,
    textures: str = "auto",
    textures_per_class: int = 12,
    background_classes: int | None = None,
    num_train: int = 6000,
    num_validation: int = 1000,
    num_test: int = 2000,
    oracle: bool = False,
    seed: int = 0,
    download: bool = False,
) -> Splits:
    """MNIST digits on textures; what is behind a digit tells its label.

    A digit, ``digit_size`` pixels a side, lies at a random position on a canvas of ``size``. The
    digit shows one texture and its background another, both random pieces of images. In training
    and validation the background comes from the texture class of the digit. With probability
    ``background_randomness``, the paper's p, it comes from any class; at test it always does. The
    texture on the digit comes from the texture class of the digit. With probability
    ``digit_randomness``, the paper's q, it comes from any class, in all parts. The mask is the
    background, ``(N, 1, H, W)``; the group is the digit.

    A pixel belongs to the digit if MNIST, resized, has at least half of its largest value there.

    Differs from the paper: it has 54,000, 6,000 and 10,000 images of 224 pixels with the whole of
    DTD. The settings ``size=224, num_train=54000, num_validation=6000, num_test=10000,
    textures_per_class=120`` give these; they need 14 GB of memory, and 1 GB for the textures. The
    paper does not say which background class belongs to which digit. The fewer textures a class
    has, the stronger is the shortcut.

    Args:
        data_dir: Folder with MNIST, as in `read_mnist`, and the textures, as in `read_textures`.
        size: Side of the images.
        digit_size: Side of the square to which MNIST is resized; one less than ``size`` if None,
            as in the paper.
        background_randomness: p for training and validation, from 0 to 1.
        digit_randomness: q, from 0 to 1.
        textures: Source of the textures: ``"auto"``, ``"dtd"``, ``"dtd10"`` or ``"procedural"``.
        textures_per_class: Number of textures of each class, for backgrounds and for digits.
        background_classes: Number of classes for backgrounds, ten or more; 37 in the paper. The
            first ten belong to digits, the others occur only where the class is drawn. None takes
            all that photographs have, and draws ten by formula.
        num_train: Number of training images.
        num_validation: Number of validation images; 0 for none.
        num_test: Number of test images.
        oracle: Whether to set p to 1 in training and validation, so that backgrounds tell
            nothing. A model trained on such data has no shortcut to learn. Everything else stays
            the same.
        seed: Random seed for all draws.
        download: Whether to download MNIST into ``data_dir`` if it is not there.

    Raises:
        DatasetNotFoundError: MNIST or the textures are not in ``data_dir``.
        DatasetCorruptError: A file cannot be read.

    References:
        adachi2022learning, cimpoi2014describing
    """
    check_integer("size", size, low=8)
    side = check_integer("digit_size", size - 1 if digit_size is None else digit_size, high=size)
    p = check_fraction("background_randomness", background_randomness)
    q = check_fraction("digit_randomness", digit_randomness)
    p = 1.0 if check_flag("oracle", oracle) else p
    check_integer("textures_per_class", textures_per_class)
    mnist = read_mnist(data_dir, download=check_flag("download", download))
    check_integer("num_validation", num_validation, low=0, high=len(mnist.y_train) - 1)
    check_integer("num_train", num_train, high=len(mnist.y_train) - num_validation)
    check_integer("num_test", num_test, high=len(mnist.y_test))
    sources = read_textures(
        Path(data_dir).expanduser(),
        size=size,
        per_class=textures_per_class,
        source=textures,
        background_classes=background_classes,
        stream=random_stream(seed, "textured_mnist", "textures"),
    )

    def part(
        name: str, x: NDArray[np.uint8], y: Tensor, rows: Tensor, p: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        stream = random_stream(seed, "textured_mnist", name)
        labels, digits = y[rows], torch.from_numpy(x[rows.numpy()])
        corners = stream.integers(size - side + 1, size=(len(rows), 2))
        behind = _draw_pieces(sources.background, labels, p, size, stream)
        shown = _draw_pieces(sources.digit, labels, q, size, stream)
        pixels = torch.empty(len(rows), 3, size, size, dtype=torch.uint8)
        mask = torch.empty(len(rows), 1, size, size, dtype=torch.bool)
        for start in range(0, len(rows), TOGETHER):  # memory holds little besides the result
            chunk = slice(start, start + TOGETHER)
            inside = _place_digits(digits[chunk], size, side, corners[chunk])
            pixels[chunk] = torch.where(inside, shown.cut(chunk, size), behind.cut(chunk, size))
            mask[chunk] = ~inside
        return pixels, mask, labels, labels

    y_train = torch.from_numpy(mnist.y_train.astype(np.int64))
    y_test = torch.from_numpy(mnist.y_test.astype(np.int64))
    split = random_stream(seed, "textured_mnist", "split")
    val, train, _ = stratified_split(y_train, sizes=[num_validation, num_train], stream=split)
    test, _ = stratified_split(y_test, sizes=[num_test], stream=split)
    parts = {
        "train": part("train", mnist.x_train, y_train, train, p),
        "test": part("test", mnist.x_test, y_test, test, 1.0),
    }
    if num_validation:
        parts["val"] = part("val", mnist.x_train, y_train, val, p)
    return masked_pixel_splits(parts, replace(CARD, source=f"{CARD.source}; {sources.source}"))


@dataclass(frozen=True)
class Textures:
    """Texture images in classes; class d of both belongs to digit d.

    Args:
        background: 8-bit images ``(n, side, side, 3)`` of each class, ten classes or more.
        digit: 8-bit images of ten classes.
        source: Origin of the images, for the card.
    """

    background: tuple[NDArray[np.uint8], ...]
    digit: tuple[NDArray[np.uint8], ...]
    source: str


def read_textures(
    data_dir: Path,
    *,
    size: int,
    per_class: int,
    source: str,
    stream: np.random.Generator,
    background_classes: int | None = None,
) -> Textures:
    """Read or draw textures at least ``size`` pixels a side.

    - ``dtd``: the Describable Textures Dataset in ``dtd/images/CLASS/*.jpg``. The paper's ten
      classes are for digits, all others, in alphabetical order, for backgrounds.
    - ``dtd10``: ``dtd10_128.npz``, ten classes of DTD for both, but never the same image.
    - ``procedural``: waves for backgrounds and plaids for digits. Each class has its own direction,
      frequency and form of the wave; each texture has two random colours.
    - ``auto``: the first of these that is there.

    Args:
        data_dir: Folder with the textures.
        size: Side of the pieces that will be cut from them.
        per_class: Number of textures of each class, drawn at random.
        source: One of `SOURCES`.
        stream: Random numbers.
        background_classes: Number of classes for backgrounds, see `textured_mnist`.

    Raises:
        DatasetNotFoundError: The source is not there, or a class has too few images.
    """
    check_choice("textures", source, SOURCES)
    if background_classes is not None:
        check_integer("background_classes", background_classes, low=NUM_CLASSES, high=MOST_CLASSES)
    side = max(SMALLEST_SIDE, size)
    folder = next((data_dir / one for one in FOLDERS if (data_dir / one / "banded").is_dir()), None)
    if source == "dtd" or (source == "auto" and folder is not None):
        if folder is None:
            raise DatasetNotFoundError(
                f"Expected the Describable Textures Dataset in {data_dir / FOLDERS[0]}, a folder "
                "for each class, but found no folder `banded`. Unpack dtd-r1.0.1.tar.gz there, or "
                "use textures='procedural'."
            )
        textures = _from_folders(folder, side, per_class, stream)
        return _limit_backgrounds(textures, background_classes, folder)
    archive = data_dir / ARCHIVE
    if source == "dtd10" or (source == "auto" and archive.is_file()):
        if not archive.is_file():
            raise DatasetNotFoundError(
                f"Expected {archive}, but there is none. Use textures='procedural'."
            )
        textures = _from_archive(archive, side, per_class, stream)
        return _limit_backgrounds(textures, background_classes, archive)
    return _draw_textures(side, per_class, background_classes or NUM_CLASSES, stream)


def _limit_backgrounds(textures: Textures, count: int | None, path: Path) -> Textures:
    found = len(textures.background)
    if count is not None and count > found:
        raise DatasetNotFoundError(
            f"Expected {count} classes of textures for backgrounds in {path}, but found {found}. "
            "Ask for fewer `background_classes`, or use textures='procedural'."
        )
    return replace(textures, background=textures.background[:count])


@dataclass(frozen=True)
class _Pieces:
    """The piece of a texture for each sample: class, image and upper left corner."""

    classes: tuple[NDArray[np.uint8], ...]
    numbers: NDArray[np.int64]
    images: NDArray[np.int64]
    corners: NDArray[np.int64]

    def cut(self, chunk: slice, size: int) -> Tensor:
        """Cut the pieces of some samples, ``(n, 3, size, size)``."""
        corners = self.corners[chunk]
        pieces = np.empty((len(corners), size, size, 3), dtype=np.uint8)
        chosen = zip(self.numbers[chunk], self.images[chunk], corners, strict=True)
        for n, (number, image, (top, left)) in enumerate(chosen):
            pieces[n] = self.classes[number][image][top : top + size, left : left + size]
        return torch.from_numpy(pieces).permute(0, 3, 1, 2)


def _draw_pieces(
    classes: tuple[NDArray[np.uint8], ...],
    labels: Tensor,
    randomness: float,
    size: int,
    stream: np.random.Generator,
) -> _Pieces:
    """Draw a piece for each label; the number of draws does not depend on the randomness."""
    count = len(labels)
    any_class = stream.integers(len(classes), size=count)
    is_random = stream.random(count) < randomness
    return _Pieces(
        classes=classes,
        numbers=np.where(is_random, any_class, labels.numpy()),
        images=stream.integers(classes[0].shape[0], size=count),
        corners=stream.integers(classes[0].shape[1] - size + 1, size=(count, 2)),
    )


def _place_digits(digits: Tensor, size: int, side: int, corners: NDArray[np.int64]) -> Tensor:
    """Put digits on canvases: ``(N, 28, 28) -> (N, 1, size, size)``, True in the digit."""
    resized = functional.interpolate(
        digits[:, None].float(), size=(side, side), mode="bilinear", antialias=True
    )
    largest = resized.amax(dim=(2, 3), keepdim=True).clamp_min(1)
    shapes = resized >= largest / 2
    canvases = torch.zeros(len(digits), 1, size, size, dtype=torch.bool)
    for canvas, shape, (top, left) in zip(canvases, shapes, corners, strict=True):
        canvas[:, top : top + side, left : left + side] = shape
    return canvases


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
        paths = list_images(folder / name)
        chosen = _choose(len(paths), per_class, stream, name)
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
        members = np.flatnonzero(archive.columns["label"] == number)
        chosen = members[_choose(len(members), 2 * per_class, stream, f"class {number} of {path}")]
        images = archive.images(chosen, size=side)
        background.append(images[:per_class])
        digit.append(images[per_class:])
    source = f"DTD, M. Cimpoi et al. 2014, ten classes, here from {path.name}"
    return Textures(tuple(background), tuple(digit), source)


def _choose(
    num_images: int, num_wanted: int, stream: np.random.Generator, name: str
) -> NDArray[np.int64]:
    if num_images < num_wanted:
        raise DatasetNotFoundError(
            f"Expected {num_wanted} textures of {name}, but found {num_images}. Ask for fewer "
            "`textures_per_class`."
        )
    return stream.permutation(num_images)[:num_wanted]


def _draw_textures(
    side: int, per_class: int, backgrounds: int, stream: np.random.Generator
) -> Textures:
    def classes(count: int, plaid: bool) -> tuple[NDArray[np.uint8], ...]:
        return tuple(
            np.stack([draw_texture(number, plaid, side, stream) for _ in range(per_class)])
            for number in range(count)
        )

    drawn = classes(backgrounds, False), classes(NUM_CLASSES, True)
    return Textures(*drawn, "textures drawn by formula")
