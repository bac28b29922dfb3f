"""Masks drawn elsewhere: image files, and all masks in one archive."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from rightreasons.annotators.hand_masks import CHUNK, change_below_augmentation, merge_channels
from rightreasons.core.arrays import read_arrays
from rightreasons.core.checks import check_choice
from rightreasons.core.files import Unreadable, writable_folder, write_atomically
from rightreasons.core.progress import progress
from rightreasons.datasets import Dataset, InMemory, MaskBits, Selected
from rightreasons.datasets.dataset import TransformedDataset
from rightreasons.datasets.images.files import image_size, read_mask
from rightreasons.datasets.images.stream import ImageStream
from rightreasons.datasets.wrappers import RowMasks, pack_masks
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError
from rightreasons.types import Batch

__all__ = [
    "POLARITIES",
    "MaskFiles",
    "file_names",
    "with_mask_archive",
    "with_mask_files",
    "write_masks",
]

POLARITIES = ("irrelevant", "relevant")
THRESHOLD = 0.5
SUFFIXES = (".png", ".bmp", ".gif", ".jpeg", ".jpg", ".tif", ".tiff", ".webp")
SHOWN = 5
LEVELS = 255

logger = logging.getLogger("rightreasons")


def file_names(data: Dataset) -> list[str] | None:
    """The file of each sample, if images are read from files; else None."""
    if isinstance(data, ImageStream):
        return [entry.file for entry in data.entries]
    if isinstance(data, InMemory):
        return None if data.files is None else list(data.files.names)
    if isinstance(data, Selected):
        below = file_names(data.base)
        return None if below is None else [below[index] for index in data.places.tolist()]
    return file_names(data.base) if isinstance(data, TransformedDataset) else None


class MaskFiles(TransformedDataset):
    """A data set with the masks given here, in place of its own.

    Args:
        base: Images ``(C, H, W)``.
        bits: A mask for each image.
        annotated: ``(N,)`` booleans: which images have a mask.
    """

    def __init__(self, base: Dataset, bits: MaskBits, annotated: Tensor) -> None:
        super().__init__(base)
        self.bits = bits
        self.annotated = annotated

    @property
    @override
    def has_masks(self) -> bool:
        return True

    @override
    def at_epoch(self, epoch: int) -> Dataset:
        return MaskFiles(self.base.at_epoch(epoch), self.bits, self.annotated)

    @override
    def digest(self) -> str:
        sha = hashlib.sha256(f"{self.base.digest()} mask files".encode())
        sha.update(self.bits.rows.tobytes())
        sha.update(self.annotated.numpy().tobytes())
        return sha.hexdigest()

    @override
    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        mask = self.bits.at(indices).to(batch.x)
        return batch.with_(mask=mask, annotated=self.annotated[indices])


def with_mask_files(data: Dataset, folder: str | Path, *, polarity: str) -> Dataset:
    """Read the masks of some images from a folder, in place of the data's own masks.

    A mask is a black and white image with the name of the image's file: ``cat/001.jpg`` has
    ``001.png`` or, if several images have that name, ``cat/001.png``. An image without a file has
    its index as name, ``17.png``. Files that match no image, such as masks of test images, are
    logged and not used. If training flips and crops images, it changes masks alike.

    Args:
        data: Images ``(C, H, W)``.
        folder: Folder with the masks, preferably PNG.
        polarity: What white means: ``"irrelevant"``, pixels the model must not look at, or
            ``"relevant"``, pixels it should look at (inverted here).

    Raises:
        DatasetNotFoundError: There is no such folder, or no mask of any image in it.
        DatasetCorruptError: A file matches several images, several files match one image, or a
            file cannot be read or has another shape than its image.
    """
    check_choice("polarity", polarity, POLARITIES)
    if len(data.card.shape) != 3:
        raise InvalidSettingError(
            f"Expected images of shape (C, H, W) to read masks for, but {data.card.name!r} has "
            f"samples of shape {data.card.shape}."
        )
    files = _match_files(data, Path(folder))
    height, width = data.card.shape[1:]
    rows = np.zeros((len(data), -(-height * width // 8)), dtype=np.uint8)
    for index, file in files.items():
        try:
            _refuse_other_shape(file, (height, width), _image_file(data, index))
            mask = read_mask(file, size=(height, width)) > THRESHOLD
        except DatasetCorruptError as error:
            raise DatasetCorruptError(f"Expected a mask in {file}, but it {error}.") from error
        rows[index] = pack_masks((mask if polarity == "irrelevant" else ~mask)[None].float())[0]
    annotated = torch.zeros(len(data), dtype=torch.bool)
    annotated[list(files)] = True
    bits = MaskBits(rows, size=(height, width))
    return change_below_augmentation(data, lambda base: MaskFiles(base, bits, annotated))


def _refuse_other_shape(file: Path, size: tuple[int, int], image: Path | None) -> None:
    """Raise for a mask that would be squashed: it has the size of its image, or its proportions."""
    height, width = image_size(file)
    if (height, width) == size:
        return
    if image is not None:
        expected = image_size(image)
        fits = (height, width) == expected
    else:
        expected = size
        fits = round(height * size[1] / width) == size[0]
    if not fits:
        raise DatasetCorruptError(
            f"has {height}x{width} pixels, but its image has {expected[0]}x{expected[1]}; draw it "
            "on the image, or resize it as the image was"
        )


def _image_file(data: Dataset, index: int) -> Path | None:
    """The file of one sample, if images are read from files when asked for; else None."""
    if isinstance(data, ImageStream):
        return data.reader.root / data.entries[index].file
    if isinstance(data, InMemory):
        return None if data.files is None else data.files.root / data.files.names[index]
    if isinstance(data, Selected):
        return _image_file(data.base, int(data.places[index]))
    return _image_file(data.base, index) if isinstance(data, TransformedDataset) else None


def _match_files(data: Dataset, folder: Path) -> dict[int, Path]:
    """Find the mask file of each image that has one, by the image's index."""
    if not folder.is_dir():
        raise DatasetNotFoundError(f"Expected a folder with masks at {folder}, but there is none.")
    files = file_names(data)
    names = files or [str(index) for index in range(len(data))]
    by_name: dict[tuple[str, ...], list[int]] = {}
    for index, name in enumerate(names):
        parts = Path(name).with_suffix("").parts if files else (name,)
        for start in range(len(parts)):  # a mask's name may be any end of the image's path
            by_name.setdefault(parts[start:], []).append(index)
    masks: dict[int, Path] = {}
    unused = []
    for file in sorted(one for one in folder.rglob("[!.]*") if one.is_file()):
        relative = file.relative_to(folder)
        matches = by_name.get(relative.with_suffix("").parts, [])
        if file.suffix.lower() not in SUFFIXES or not matches:
            unused.append(str(relative))
            continue
        if len(matches) > 1:
            several = ", ".join(names[index] for index in matches[:SHOWN])
            full_name = Path(names[matches[0]]).with_suffix(".png")
            raise DatasetCorruptError(
                f"Expected {file} to be called as one image, but {len(matches)} are called so: "
                f"{several}. Put masks into folders as the images are in, such as "
                f"{folder / full_name}."
            )
        other = masks.setdefault(matches[0], file)
        if other != file:
            raise DatasetCorruptError(
                f"Expected one mask for the image {names[matches[0]]}, but got {other} and {file}. "
                "Leave one of them."
            )
    listed = ", ".join(unused[:SHOWN]) + (", …" if len(unused) > SHOWN else "")
    if not masks:
        has = f"none of its {len(unused)} files is: {listed}" if unused else "it is empty"
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
            *(", ".join(SUFFIXES), listed),
        )
    return masks


def write_masks(path: str | Path, data: Dataset) -> None:
    """Write the mask of every sample as an archive of arrays; `with_mask_archive` reads it.

    ::

        mask       (N, H, W) bytes; 255 where the model must not look
        annotated  (N,) booleans: True if drawn by a person, False if predicted
        files      (N,) names, if images have files

    Texts have ``mask`` ``(N, T)``, padded to the longest, rows of a table ``(N, D)``. The
    ``substitutes`` of texts are kept too.

    Args:
        path: Path of the ``.npz`` file.
        data: Data with masks, such as those from `annotate_rest`.
    """
    masks, annotated = [], []
    with progress("writing masks", total=len(data)) as advance:
        for batch in data.batches(torch.split(torch.arange(len(data)), CHUNK)):
            if batch.x.ndim == 4:
                mask = merge_channels(batch)[:, 0]
            elif batch.mask is None:
                raise InvalidSettingError("Expected a batch with a `mask`, but got none.")
            else:
                mask = functional.pad(batch.mask, (0, data.card.shape[0] - batch.mask.shape[1]))
            masks.append((mask * LEVELS).round().byte().cpu().numpy())
            everyone = torch.ones(len(batch), dtype=torch.bool)
            annotated.append((everyone if batch.annotated is None else batch.annotated).numpy())
            advance(len(batch))
    arrays: dict[str, Any] = {"mask": np.concatenate(masks), "annotated": np.concatenate(annotated)}
    files = file_names(data)
    if files is not None:
        arrays["files"] = np.array(files)
    if data.card.text is not None:
        arrays["substitutes"] = np.array(data.card.text.substitutes, dtype=np.int64)
    target = Path(path)
    writable_folder(target.parent)
    write_atomically(target, lambda file: np.savez_compressed(file, **arrays))


def with_mask_archive(data: Dataset, path: str | Path) -> Dataset:
    """Read the masks of all samples that `write_masks` wrote, in place of the data's own masks.

    ``annotated`` is True for masks that a person drew, as after `annotate_rest`.

    Args:
        data: The same samples in the same order. They are compared by the names of their files; if
            these are not known, by their number and size.
        path: Path of the ``.npz`` file.

    Raises:
        DatasetNotFoundError: There is no such file.
        DatasetCorruptError: It is no such archive, or is of other images.
    """
    try:
        arrays = read_arrays(Path(path))
        mask, annotated = arrays["mask"], torch.from_numpy(arrays["annotated"])
        if mask.dtype != np.uint8 or annotated.dtype != torch.bool:
            raise Unreadable(f"its masks are {mask.dtype}, not bytes, or `annotated` not booleans")
    except FileNotFoundError as error:
        raise DatasetNotFoundError(
            f"Expected masks at {path}, but there is no such file. Write it with "
            "`rightreasons annotate --rest --out`."
        ) from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DatasetCorruptError(
            f"Expected {path} as `rightreasons annotate --rest` wrote it, but cannot read it: "
            f"{error}."
        ) from error
    is_image = len(data.card.shape) == 3
    shape = (len(data), *(data.card.shape[1:] if is_image else data.card.shape))
    if mask.shape != shape or annotated.shape != shape[:1]:
        raise DatasetCorruptError(
            f"Expected {path} to have masks of {shape}, one for each sample of {data.card.name!r}, "
            f"but got {mask.shape}. Use the data it was written for, of the same size."
        )
    if not is_image:
        known = arrays.get("substitutes", np.zeros(0, dtype=np.int64))
        return RowMasks(data, mask, annotated, substitutes=tuple(known.tolist()))
    files, names = arrays.get("files"), file_names(data)
    if files is not None and names is not None and files.tolist() != names:
        other = next(pair for pair in zip(names, files.tolist(), strict=True) if pair[0] != pair[1])
        raise DatasetCorruptError(
            f"Expected {path} to have masks of the images of {data.card.name!r} in their order, "
            f"but where these have {other[0]} it has {other[1]}. Use the data it was written for."
        )
    height, width = shape[1:]
    bits = MaskBits(mask.reshape(len(data), -1), size=(height, width), soft=True)
    return change_below_augmentation(data, lambda base: MaskFiles(base, bits, annotated))
