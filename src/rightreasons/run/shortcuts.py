"""Shortcuts by their masks: read from folders, several at once, and what a model loses without."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.annotators import with_mask_archive, with_mask_files
from rightreasons.annotators.hand_masks import CHUNK, change_below_augmentation
from rightreasons.annotators.mask_files import POLARITIES, MaskFiles
from rightreasons.core.checks import check_choice
from rightreasons.core.files import Unreadable, read_json
from rightreasons.core.rng import sample_noise
from rightreasons.datasets import Dataset, MaskBits, Splits
from rightreasons.datasets.dataset import TransformedDataset
from rightreasons.datasets.wrappers import RowMasks, pack_masks
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError
from rightreasons.types import Batch

__all__ = [
    "COLOUR",
    "ColourExchanged",
    "Shortcut",
    "find_growth",
    "read_shortcuts",
    "with_masks",
]

COLOUR = "colour"
"""Name of the shortcut that has no place: the mean and the deviation of each channel."""
ABOUT = "masks.json"
NEARLY_ALL = 0.95
GROWN = 0.05
"""A shortcut that costs this much more accuracy than before was fed by removing another."""

Kind = Literal["masks", "colour"]


@dataclass(frozen=True)
class Shortcut:
    """One thing that must not matter.

    Args:
        name: Its name in tables.
        path: Folder of its masks, or ``"colour"``.
        kind: Whether it has masks, or is the colour of the whole image.
        polarity: What is white in its masks.
        is_complete: Whether a sample without a mask file has nothing to mask.
    """

    name: str
    path: str
    kind: Kind = "masks"
    polarity: str | None = None
    is_complete: bool = False


def read_shortcuts(paths: Sequence[str], polarity: str | None = None) -> list[Shortcut]:
    """Read what folders of masks say about themselves in ``masks.json``, if they have one.

    The file may have ``name``, ``kind``, ``polarity`` and ``complete``: whether a sample without a
    mask has nothing to mask.

    Args:
        paths: Folders of masks, or archives of masks of training data; the word ``colour`` is the
            colour of whole images.
        polarity: What is white in masks of folders that do not say it.
    """
    found: list[Shortcut] = []
    for path in paths:
        shortcut = _read_shortcut(path, polarity)
        taken = {one.name for one in found}
        number = 2
        name = shortcut.name
        while name in taken:
            name, number = f"{shortcut.name} {number}", number + 1
        found.append(replace(shortcut, name=name))
    return found


def _read_shortcut(path: str, polarity: str | None) -> Shortcut:
    folder = Path(path)
    if path == COLOUR:
        return Shortcut(COLOUR, path, "colour")
    if folder.is_file():
        return Shortcut(folder.stem, path)
    if not folder.is_dir():
        raise DatasetNotFoundError(
            f"Expected a folder with masks at {path}, but there is none. Name one (--masks), such "
            "as `rightreasons audit accept` writes, the file of `rightreasons annotate --rest`, or "
            f"the word {COLOUR}."
        )
    try:
        told = read_json(folder / ABOUT)
    except FileNotFoundError:
        told = {}
    except Unreadable as error:
        raise DatasetCorruptError(
            f"Expected {folder / ABOUT} to be JSON about the masks beside it, but it cannot be "
            f"read: {error}."
        ) from error
    told = told if isinstance(told, dict) else {}
    stated = told.get("polarity", polarity)
    if stated is not None:
        check_choice("polarity", stated, POLARITIES)
    kind: Kind = "colour" if str(told.get("kind", "")).startswith(("colour", "color")) else "masks"
    name = str(told.get("name") or folder.resolve().name)
    return Shortcut(name, path, kind, stated, bool(told.get("complete", False)))


def with_masks(splits: Splits, shortcuts: Sequence[Shortcut]) -> Splits:
    """Give data the masks of shortcuts, in place of their own; several are joined.

    Masks are ``train.npz``, ``val.npz`` and ``test.npz`` as `write_masks` writes them, or image
    files as `with_mask_files` reads them; images without names have them in the folders
    ``train``, ``val`` and ``test``. If colour is among the shortcuts, training images get the
    colours of others.

    Args:
        splits: The data; not modified.
        shortcuts: The shortcuts; without any the data stay as they are.
    """
    if not shortcuts:
        return splits
    masked = [one for one in shortcuts if one.kind == "masks"]
    parts: dict[str, Dataset | None] = {"train": splits.train, "val": splits.val}
    parts |= {"test": splits.test, **splits.more_tests}
    if masked:
        for name, part in parts.items():
            if part is not None:
                parts[name] = _mask_part(part, name, masked)
    train, val, test = (parts.pop(name) for name in ("train", "val", "test"))
    if train is None or test is None:
        raise InvalidSettingError("Expected training and test data, but got none.")
    if len(masked) < len(shortcuts):
        train = change_below_augmentation(train, lambda base: ColourExchanged(base))
    more = {name: part for name, part in parts.items() if part is not None}
    return Splits(train=train, val=val, test=test, more_tests=more)


def _mask_part(part: Dataset, split: str, shortcuts: Sequence[Shortcut]) -> Dataset:
    """Read the masks of one part of the data; a part other than training may have none."""
    rows, annotated = [], []
    layers: list[RowMasks] = []
    for shortcut in shortcuts:
        try:
            read = _read_masks(part, split, shortcut)
        except DatasetNotFoundError:
            if split == "train":
                raise
            return part
        if isinstance(read, RowMasks):
            layers.append(read)
            continue
        found = _find_masks(read)
        everyone = shortcut.is_complete or float(found.annotated.float().mean()) >= NEARLY_ALL
        rows.append(found.bits)
        annotated.append(torch.ones_like(found.annotated) if everyone else found.annotated)
    if layers:
        return layers[0].joined(layers[1:])
    bits, known = _join_bits(rows), torch.stack(annotated).all(dim=0)
    return change_below_augmentation(part, lambda base: MaskFiles(base, bits, known))


def _read_masks(part: Dataset, split: str, shortcut: Shortcut) -> Dataset:
    folder = Path(shortcut.path)
    if folder.is_file():
        if split != "train":
            raise DatasetNotFoundError(f"Expected masks of {split} data, but {folder} has none.")
        return with_mask_archive(part, folder)
    if (folder / f"{split}.npz").is_file():
        return with_mask_archive(part, folder / f"{split}.npz")
    if any((folder / f"{one}.npz").is_file() for one in ("train", "val", "test")):
        raise DatasetNotFoundError(
            f"Expected masks at {folder / f'{split}.npz'}, but there is no such file."
        )
    if shortcut.polarity is None:
        raise InvalidSettingError(
            f"Expected to know what is white in the masks of {folder}, but nobody said. Give "
            "--mask-polarity irrelevant if white is what the model must not look at, else relevant."
        )
    place = folder / split if (folder / split).is_dir() else folder
    return with_mask_files(part, place, polarity=shortcut.polarity)


def _find_masks(data: Dataset) -> MaskFiles:
    while not isinstance(data, MaskFiles):
        data = data.base  # type: ignore[attr-defined]
    return data


def _join_bits(sets: Sequence[MaskBits]) -> MaskBits:
    """The largest of several masks at each pixel."""
    if all(not bits.soft for bits in sets):
        rows = np.bitwise_or.reduce([bits.rows for bits in sets])
        return MaskBits(rows, size=sets[0].size)
    joined = np.zeros((len(sets[0]), sets[0].size[0] * sets[0].size[1]), dtype=np.uint8)
    for places in torch.split(torch.arange(len(joined)), CHUNK):
        masks = torch.stack([bits.at(places) for bits in sets]).amax(dim=0)
        joined[places.numpy()] = pack_masks(masks, soft=True)
    return MaskBits(joined, size=sets[0].size, soft=True)


class ColourExchanged(TransformedDataset):
    """Images that get the mean and the deviation of each channel from another image.

    In training the other image is drawn anew for every epoch. Without an epoch the images are
    unchanged, unless ``always`` is set. Draws depend on the seed, the epoch and the sample alone.

    Args:
        base: Images ``(C, H, W)``.
        seed: Random seed for the draws.
        epoch: The epoch; None for unchanged images.
        always: Whether to exchange without an epoch too.
        across: Whether the other image is one of another class.
        moments: Mean and deviation of each channel of all images; None computes them.
    """

    def __init__(
        self,
        base: Dataset,
        *,
        seed: int = 0,
        epoch: int | None = None,
        always: bool = False,
        across: bool = False,
        moments: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        super().__init__(base)
        if len(base.card.shape) != 3:
            raise InvalidSettingError(
                f"Expected images of shape (C, H, W) to exchange colours of, but "
                f"{base.card.name!r} has samples of shape {base.card.shape}."
            )
        self.seed, self.epoch, self.always, self.across = seed, epoch, always, across
        self.moments = _measure_colours(base) if moments is None else moments

    @override
    def at_epoch(self, epoch: int) -> Dataset:
        base = self.base.at_epoch(epoch)
        return ColourExchanged(
            base, seed=self.seed, epoch=epoch, across=self.across, moments=self.moments
        )

    @override
    def digest(self) -> str:
        told = f"{self.base.digest()} colour {self.seed}{' across' if self.across else ''}"
        return hashlib.sha256(told.encode()).hexdigest()

    @override
    def transform(self, batch: Batch, indices: Tensor) -> Batch:
        if self.epoch is None and not self.always:
            return batch
        mean, deviation = self.moments
        seed = self.seed * 1_000_003 + (self.epoch or 0)
        draws = sample_noise(indices, (), num_draws=1, seed=seed)[0]
        donors = (indices + 1 + (draws * (len(mean) - 1)).long()) % len(mean)  # never itself
        if self.across:
            donors = self._find_other_class(indices, draws, donors)
        x, column = batch.x, (-1, mean.shape[1], 1, 1)
        own, other = ((mean[rows], deviation[rows]) for rows in (indices, donors))
        scaled = (x - own[0].reshape(column)) / own[1].reshape(column).clamp(min=1e-6)
        moved = scaled * other[1].reshape(column) + other[0].reshape(column)
        low, high = self.card.valid_range
        return batch.with_(x=moved.clamp(low, high).to(x))

    def _find_other_class(self, indices: Tensor, draws: Tensor, donors: Tensor) -> Tensor:
        """Samples of other classes; where there are none, the donors stay."""
        labels, donors = self.base.labels.cpu(), donors.clone()
        for y in torch.unique(labels[indices]):
            others = (labels != y).nonzero()[:, 0]
            if len(others):
                mine = labels[indices] == y
                donors[mine] = others[(draws[mine] * len(others)).long()]
        return donors


def _measure_colours(data: Dataset) -> tuple[Tensor, Tensor]:
    means, deviations = [], []
    for batch in data.batches(torch.split(torch.arange(len(data)), CHUNK)):
        means.append(batch.x.mean(dim=(2, 3)))
        deviations.append(batch.x.std(dim=(2, 3), correction=0))
    return torch.cat(means), torch.cat(deviations)


def find_growth(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the shortcuts that a model reads more than before, as sentences of warning.

    Args:
        rows: Rows of the matrix: ``name``, ``fixed``, and ``before`` and ``after`` with ``cost``,
            ``low`` and ``high``.
    """
    removed = ", ".join(str(row["name"]) for row in rows if row["fixed"]) or "the shortcut"
    warnings = []
    for row in rows:
        one, two = row["before"], row["after"]
        if one is None or two is None:
            continue
        if two["cost"] - one["cost"] >= GROWN and two["low"] > one["high"]:
            costs = f"{100 * one['cost']:.1f} points before, {100 * two['cost']:.1f} now"
            others = removed if not row["fixed"] else "the others"
            warnings.append(
                f"Removing {others} feeds {row['name']}: exchanging it costs {costs}. Mask it too."
            )
    return warnings
