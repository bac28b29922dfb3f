"""Names of image files, and masks that lie in a folder under these names."""

from __future__ import annotations

import hashlib
import logging
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
SUFFIXES = (".png", ".bmp", ".gif", ".jpeg", ".jpg", ".tif", ".tiff", ".webp")
SHOWN = 5

logger = logging.getLogger("rightreasons")


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
    ``001.png`` or, where several images have that name, ``cat/001.png``. Where images have no
    files of their own it is called as the image's place, ``17.png``. Files that are called as
    none of the images, such as masks of test images, are not used, which is logged. Where
    training sees images flipped and cropped, masks move with them.

    Args:
        data: Images ``(C, H, W)``.
        folder: With the masks, PNG by preference.
        polarity: What is white in them: ``"irrelevant"``, what the model must not look at, or
            ``"relevant"``, what it should look at (inverted here).

    Raises:
        DatasetNotFoundError: There is no such folder, or no mask of any image in it.
        DatasetCorruptError: A file is called as several images, several as one image, or one of
            them cannot be read.
    """
    checked_choice("polarity", polarity, POLARITIES)
    if len(data.card.shape) != 3:
        raise InvalidSettingError(
            f"Expected images of shape (C, H, W) to read masks for, but {data.card.name!r} has "
            f"samples of shape {data.card.shape}."
        )
    found = _masks_of(data, Path(folder))
    height, width = data.card.shape[1:]
    rows = np.zeros((len(data), -(-height * width // 8)), dtype=np.uint8)
    for place, file in found.items():
        try:
            mask = read_mask(file, size=(height, width)) > THRESHOLD
        except DatasetCorruptError as error:
            raise DatasetCorruptError(f"Expected a mask in {file}, but it {error}.") from error
        rows[place] = packed((mask if polarity == "irrelevant" else ~mask)[None].float())[0]
    annotated = torch.zeros(len(data), dtype=torch.bool)
    annotated[list(found)] = True
    bits = MaskBits(rows, size=(height, width))
    return before_augmentation(data, lambda base: MaskFiles(base, bits, annotated))


def _masks_of(data: Dataset, folder: Path) -> dict[int, Path]:
    """The mask file of each place that has one."""
    if not folder.is_dir():
        raise DatasetNotFoundError(f"Expected a folder with masks at {folder}, but there is none.")
    files = file_names(data)
    names = files or [str(place) for place in range(len(data))]
    places: dict[tuple[str, ...], list[int]] = {}
    for place, name in enumerate(names):
        parts = Path(name).with_suffix("").parts if files else (name,)
        for start in range(len(parts)):  # a mask may be called by any end of the image's path
            places.setdefault(parts[start:], []).append(place)
    masks: dict[int, Path] = {}
    unused = []
    for file in sorted(one for one in folder.rglob("[!.]*") if one.is_file()):
        inside = file.relative_to(folder)
        which = places.get(inside.with_suffix("").parts, [])
        if file.suffix.lower() not in SUFFIXES or not which:
            unused.append(str(inside))
            continue
        if len(which) > 1:
            several = ", ".join(names[place] for place in which[:SHOWN])
            own = Path(names[which[0]]).with_suffix(".png")
            raise DatasetCorruptError(
                f"Expected {file} to be called as one image, but {len(which)} are called so: "
                f"{several}. Put masks into folders as the images are in, such as {folder / own}."
            )
        other = masks.setdefault(which[0], file)
        if other != file:
            raise DatasetCorruptError(
                f"Expected one mask for the image {names[which[0]]}, but got {other} and {file}. "
                "Leave one of them."
            )
    told = ", ".join(unused[:SHOWN]) + (", …" if len(unused) > SHOWN else "")
    if not masks:
        has = f"none of its {len(unused)} files is: {told}" if unused else "it is empty"
        hint = "" if files else " Images in memory go by their places; in_memory=False keeps names."
        raise DatasetNotFoundError(
            f"Expected masks in {folder} called as the images, such as "
            f"{Path(names[0]).stem}.png, but {has}.{hint}"
        )
    if unused:
        logger.warning(
            "%d of %d files in %s are called as none of the %d images (or are no %s) and are not "
            "used: %s.",
            *(len(unused), len(unused) + len(masks), folder, len(data)),
            *(", ".join(SUFFIXES), told),
        )
    return masks
