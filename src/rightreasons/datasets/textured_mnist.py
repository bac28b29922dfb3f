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

from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.masked_pixels import masked_pixel_splits
from rightreasons.datasets.mnist import read_mnist
from rightreasons.datasets.random_stream import random_stream
from rightreasons.datasets.splitting import stratified
from rightreasons.datasets.texture import read_textures
from rightreasons.datasets.training_part import checked_fraction
from rightreasons.setting import checked_flag, checked_number

__all__ = ["textured_mnist"]

TOGETHER = 256

CARD = Card(
    name="textured_mnist",
    description="MNIST digits made of one texture, on another.",
    source="MNIST, Y. LeCun, C. Cortes and C. J. C. Burges; after Adachi & Yamaguchi 2022",
    licence="MNIST: CC BY-SA 3.0; photographs of textures: for research",
    shortcut=(
        "The class of the background's texture: it tells the digit in training and validation, "
        "and is drawn at random at test."
    ),
    classes=tuple(str(digit) for digit in range(10)),
    groups=tuple(f"digit {digit}" for digit in range(10)),
)


def textured_mnist(
    data_dir: str | PathLike[str],
    *,
    size: int = 48,
    digit_size: int | None = None,
    background_randomness: float = 0.0,
    digit_randomness: float = 1.0,
    textures: str = "auto",
    textures_per_class: int = 12,
    num_train: int = 6000,
    num_validation: int = 1000,
    num_test: int = 2000,
    oracle: bool = False,
    seed: int = 0,
    download: bool = False,
) -> Splits:
    """MNIST digits on textures; what is behind a digit tells its label.

    A digit, ``digit_size`` pixels a side, lies somewhere on a canvas of ``size``; it shows one
    texture and everything else another, both random pieces of images. In training and validation
    the background is of the digit's own class of textures, but with probability
    ``background_randomness``, the paper's p, of any class; at test always of any class. The
    digit's texture is of the digit's own class, but with probability ``digit_randomness``, the
    paper's q, of any class, in all parts. The mask is all that is not digit, ``(N, 1, H, W)``; the
    group is the digit.

    A digit is where MNIST, resized, has at least half of the image's largest value.

    Differs from the paper: it has 54,000, 6,000 and 10,000 images of 224 pixels with the whole of
    DTD, which ``size=224, num_train=54000, num_validation=6000, num_test=10000,
    textures_per_class=120`` gives, at 14 GB of memory, and 1 GB for textures until they are made.
    It does not say which class of backgrounds is whose. The fewer textures a class has, the
    stronger is the shortcut.

    Args:
        data_dir: Where MNIST lies, see `read_mnist`, and the textures, see `read_textures`.
        size: Side of the images.
        digit_size: Side of the square MNIST is resized to; one less than ``size`` if None, as in
            the paper.
        background_randomness: p, from 0 to 1, of training and validation.
        digit_randomness: q, from 0 to 1.
        textures: Where textures come from, see `read_textures`.
        textures_per_class: How many, for backgrounds and for digits.
        num_train: How many images to train on.
        num_validation: How many to choose settings on; 0 for none.
        num_test: How many to test on.
        oracle: Set p to 1 in training and validation, so that backgrounds tell nothing: what a
            model reaches that has no shortcut to take. All else stays the same.
        seed: Of everything that is drawn.
        download: Fetch MNIST into ``data_dir`` if it is not there.

    Raises:
        DatasetNotFoundError: MNIST, or the textures asked for, are not in ``data_dir``.
        DatasetCorruptError: They cannot be read.

    References:
        adachi2022learning, cimpoi2014describing
    """
    checked_number("size", size, low=8)
    side = checked_number("digit_size", size - 1 if digit_size is None else digit_size, high=size)
    p = checked_fraction("background_randomness", background_randomness)
    q = checked_fraction("digit_randomness", digit_randomness)
    p = 1.0 if checked_flag("oracle", oracle) else p
    checked_number("textures_per_class", textures_per_class)
    mnist = read_mnist(data_dir, download=checked_flag("download", download))
    checked_number("num_validation", num_validation, low=0, high=len(mnist.y_train) - 1)
    checked_number("num_train", num_train, high=len(mnist.y_train) - num_validation)
    checked_number("num_test", num_test, high=len(mnist.y_test))
    found = read_textures(
        Path(data_dir).expanduser(),
        size=size,
        per_class=textures_per_class,
        source=textures,
        stream=random_stream(seed, "textured_mnist", "textures"),
    )

    def part(
        name: str, x: NDArray[np.uint8], y: Tensor, rows: Tensor, p: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        stream = random_stream(seed, "textured_mnist", name)
        labels, digits = y[rows], torch.from_numpy(x[rows.numpy()])
        corners = stream.integers(size - side + 1, size=(len(rows), 2))
        behind = _drawn(found.background, labels, p, size, stream)
        shown = _drawn(found.digit, labels, q, size, stream)
        pixels = torch.empty(len(rows), 3, size, size, dtype=torch.uint8)
        mask = torch.empty(len(rows), 1, size, size, dtype=torch.bool)
        for start in range(0, len(rows), TOGETHER):  # so that memory holds little but the result
            some = slice(start, start + TOGETHER)
            inside = _placed(digits[some], size, side, corners[some])
            pixels[some] = torch.where(inside, shown.cut(some, size), behind.cut(some, size))
            mask[some] = ~inside
        return pixels, mask, labels, labels

    y_train = torch.from_numpy(mnist.y_train.astype(np.int64))
    y_test = torch.from_numpy(mnist.y_test.astype(np.int64))
    split = random_stream(seed, "textured_mnist", "split")
    val, train, _ = stratified(y_train, sizes=[num_validation, num_train], stream=split)
    test, _ = stratified(y_test, sizes=[num_test], stream=split)
    parts = {
        "train": part("train", mnist.x_train, y_train, train, p),
        "test": part("test", mnist.x_test, y_test, test, 1.0),
    }
    if num_validation:
        parts["val"] = part("val", mnist.x_train, y_train, val, p)
    return masked_pixel_splits(parts, replace(CARD, source=f"{CARD.source}; {found.source}"))


def _placed(digits: Tensor, size: int, side: int, corners: NDArray[np.int64]) -> Tensor:
    """Where the digits are on their canvases: ``(N, 28, 28) -> (N, 1, size, size)`` booleans."""
    resized = functional.interpolate(
        digits[:, None].float(), size=(side, side), mode="bilinear", antialias=True
    )
    largest = resized.amax(dim=(2, 3), keepdim=True).clamp_min(1)
    shapes = resized >= largest / 2
    canvases = torch.zeros(len(digits), 1, size, size, dtype=torch.bool)
    for canvas, shape, (top, left) in zip(canvases, shapes, corners, strict=True):
        canvas[:, top : top + side, left : left + side] = shape
    return canvases


@dataclass(frozen=True)
class _Pieces:
    """Which piece of which texture each sample gets."""

    classes: tuple[NDArray[np.uint8], ...]
    numbers: NDArray[np.int64]
    images: NDArray[np.int64]
    corners: NDArray[np.int64]

    def cut(self, some: slice, size: int) -> Tensor:
        """Those of some samples, ``(n, 3, size, size)``."""
        corners = self.corners[some]
        pieces = np.empty((len(corners), size, size, 3), dtype=np.uint8)
        chosen = zip(self.numbers[some], self.images[some], corners, strict=True)
        for n, (number, image, (top, left)) in enumerate(chosen):
            pieces[n] = self.classes[number][image][top : top + size, left : left + size]
        return torch.from_numpy(pieces).permute(0, 3, 1, 2)


def _drawn(
    classes: tuple[NDArray[np.uint8], ...],
    labels: Tensor,
    randomness: float,
    size: int,
    stream: np.random.Generator,
) -> _Pieces:
    """A piece of a texture for each label; as many numbers are drawn at any randomness."""
    count = len(labels)
    any_class = stream.integers(len(classes), size=count)
    is_random = stream.random(count) < randomness
    return _Pieces(
        classes=classes,
        numbers=np.where(is_random, any_class, labels.numpy()),
        images=stream.integers(classes[0].shape[0], size=count),
        corners=stream.integers(classes[0].shape[1] - size + 1, size=(count, 2)),
    )
