"""Names of image files, and masks that lie in a folder under these names."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rightreasons.annotators.before_augmentation import before_augmentation
from rightreasons.datasets import Dataset, MaskBits, Selected
from rightreasons.datasets.altered import Altered
from rightreasons.datasets.image_file import read_mask
from rightreasons.datasets.image_stream import ImageStream
from rightreasons.datasets.mask_bits import packed
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError
from rightreasons.setting import checked_choice
from rightreasons.types import Batch

__all__ = ["POLARITIES", "MaskFiles", "file_names", "with_mask_files"]

POLARITIES = ("irrelevant", "relevant")
THRESHOLD = 0.5


def file_names(data: Dataset) -> list[str] | None:
    """The file of each sample, if images are read from files when asked for; else None."""
    if isinstance(data, ImageStream):
        return [entry.file for entry in data.entries]
    if isinstance(data, Selected):
        below = file_names(data.base)
        return None if below is None else [below[place] for place in data.places.tolist()]
    return file_names(data.base) if isinstance(data, Altered) else None


class MaskFiles(Altered):
    """A data set whose masks are those given here, and no others.

    Args:
        base: Images ``(C, H, W)``.
        bits: A mask for each of them.
        annotated: ``(N,)``: which masks there are.
    """

    def __init__(self, base: Dataset, bits: MaskBits, annotated: Tensor) -> None:
        super().__init__(base)
        self.bits = bits
        self.annotated = annotated

    @property
    def has_masks(self) -> bool:
        """See `Dataset.has_masks`."""
        return True

    def at_epoch(self, epoch: int) -> Dataset:
        """See `Dataset.at_epoch`."""
        return MaskFiles(self.base.at_epoch(epoch), self.bits, self.annotated)

    def digest(self) -> str:
        """See `Dataset.digest`."""
        sha = hashlib.sha256(f"{self.base.digest()} mask files".encode())
        sha.update(self.bits.rows.tobytes())
        sha.update(self.annotated.numpy().tobytes())
        return sha.hexdigest()

    def altered(self, batch: Batch, places: Tensor) -> Batch:
        """See `Altered.altered`."""
        return Batch.trusted(
            x=batch.x,
            y=batch.y,
            mask=self.bits.at(places).to(batch.x),
            annotated=self.annotated[places],
            group=batch.group,
            index=batch.index,
        )


def with_mask_files(data: Dataset, folder: str | Path, *, polarity: str) -> Dataset:
    """Take the masks of some images from a folder; the data's own are put aside.

    A mask is a black and white image called as the image's file, ``cat/001.jpg`` ->
    ``001.png``, or, where images have no files of their own, as its place, ``17.png``. Where
    training sees images flipped and cropped, masks move with them.

    Args:
        data: Images ``(C, H, W)``.
        folder: With the masks, as PNG.
        polarity: What is white in them: ``"irrelevant"``, what the model must not look at, or
            ``"relevant"``, what it should look at (inverted here).
    """
    checked_choice("polarity", polarity, POLARITIES)
    path = Path(folder)
    if len(data.card.shape) != 3:
        raise InvalidSettingError(
            f"Expected images of shape (C, H, W) to read masks for, but {data.card.name!r} has "
            f"samples of shape {data.card.shape}."
        )
    files = file_names(data) or [str(place) for place in range(len(data))]
    found = {one.stem: one for one in sorted(path.glob("*.png"))}
    stems = [Path(file).stem for file in files]
    known = [place for place, stem in enumerate(stems) if stem in found]
    if not known or len(set(stems)) < len(stems):
        problem = "there is none" if not known else "several images have the same name"
        raise DatasetNotFoundError(
            f"Expected masks in {path} called as the images, such as {stems[0]}.png, but {problem}."
        )
    height, width = data.card.shape[1:]
    rows = np.zeros((len(data), -(-height * width // 8)), dtype=np.uint8)
    for place in known:
        try:
            mask = read_mask(found[stems[place]], size=(height, width)) > THRESHOLD
        except DatasetCorruptError as error:
            raise DatasetCorruptError(
                f"Expected a mask in {found[stems[place]]}, but it {error}."
            ) from error
        rows[place] = packed((mask if polarity == "irrelevant" else ~mask)[None].float())[0]
    annotated = torch.zeros(len(data), dtype=torch.bool)
    annotated[known] = True
    bits = MaskBits(rows, size=(height, width))
    return before_augmentation(data, lambda base: MaskFiles(base, bits, annotated))
