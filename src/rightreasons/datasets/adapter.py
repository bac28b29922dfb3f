"""Data of other libraries as a `Dataset`: torch, NumPy and Hugging Face."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils import data as torch_data

from rightreasons.core.progress import read_ahead
from rightreasons.core.rng import drawn_from
from rightreasons.datasets.dataset import Card, Dataset, InMemory, Splits
from rightreasons.errors import InvalidBatchError
from rightreasons.types import Batch

__all__ = ["adapt_torch"]

ACCEPTED = (
    "a `rightreasons` data set, a `Batch`, arrays (x, y[, mask[, group]]), or a map-style torch or "
    "Hugging Face data set of tuples (x, y[, mask[, group]]) or dicts with x, y and optionally "
    "mask, group"
)
KEYS = {
    "x": ("x", "input", "image", "img", "pixel_values"),
    "y": ("y", "label", "labels"),
    "mask": ("mask",),
    "group": ("group",),
}
_WHOLE = (torch_data.SequentialSampler, torch_data.RandomSampler)

logger = logging.getLogger("rightreasons")


def adapt_torch(data: object, *, workers: int, seed: int) -> Dataset:
    """Make a data set from data of other libraries, as `as_dataset` says; refuse the rest."""
    if isinstance(data, torch_data.DataLoader):
        data = _data_of(data)
    if isinstance(data, Dataset):
        return data
    if isinstance(data, torch_data.TensorDataset) and 2 <= len(data.tensors) <= len(KEYS):
        columns: dict[str, Any] = dict(zip(KEYS, data.tensors, strict=False))
        return InMemory(Batch(**columns))
    if _are_arrays(data):
        parts = [torch.as_tensor(part) for part in data]  # type: ignore[attr-defined]
        columns = dict(zip(KEYS, parts, strict=False))
        return InMemory(Batch(**columns))
    if isinstance(data, Splits):
        raise InvalidBatchError(
            f"Expected {ACCEPTED}, but got Splits. Pass one of its parts, such as data.train."
        )
    if isinstance(data, Mapping):
        raise InvalidBatchError(
            f"Expected {ACCEPTED}, but got a {type(data).__name__} with "
            f"{', '.join(map(str, data))}. Pass one part of it, such as data['train'], or arrays "
            "as a tuple."
        )
    is_torch = isinstance(data, torch_data.Dataset) or _is_huggingface(data)
    if isinstance(data, torch_data.IterableDataset) or not is_torch:
        raise InvalidBatchError(f"Expected {ACCEPTED}, but got {type(data).__name__}.")
    if not hasattr(data, "__len__") or not len(data):
        raise InvalidBatchError(
            f"Expected {ACCEPTED}, with a length of at least 1, but got {type(data).__name__} "
            f"{'of length 0' if hasattr(data, '__len__') else 'without one'}."
        )
    return _MapStyle(cast("torch_data.Dataset[Any]", data), workers=workers, seed=seed)


def _data_of(loader: torch_data.DataLoader[Any]) -> object:
    """The data set of a loader, if its batches hold all samples as they are."""
    is_plain = loader.collate_fn is torch_data.default_collate
    if loader.batch_sampler is not None:
        sampler = getattr(loader.batch_sampler, "sampler", None)
        is_plain = is_plain and type(loader.batch_sampler) is torch_data.BatchSampler
        is_plain = is_plain and isinstance(sampler, _WHOLE)
    if not is_plain:
        raise InvalidBatchError(
            f"Expected {ACCEPTED}, but got a DataLoader with a sampler or a collate_fn of its own, "
            "which would not be used: batches are made here. Pass a data set that does the same, "
            "such as torch.utils.data.Subset, or loader.dataset."
        )
    logger.warning("Took the data set of the DataLoader; batches are made by `batch_size` here.")
    return loader.dataset


def _are_arrays(data: object) -> bool:
    """Whether data are arrays or tensors x, y[, mask[, group]] with a row for each sample."""
    if not isinstance(data, tuple | list) or not 2 <= len(data) <= len(KEYS):
        return False
    return all(isinstance(part, np.ndarray | Tensor) and part.ndim for part in data)


def _is_huggingface(data: object) -> bool:
    """Whether it is a data set of Hugging Face's `datasets`, which need not be installed."""
    return type(data).__module__.startswith("datasets.") and hasattr(data, "column_names")


class _MapStyle(Dataset):
    """A map-style data set, its items collated on demand."""

    def __init__(
        self, items: torch_data.Dataset[Any], *, workers: int, seed: int, epoch: int = 0
    ) -> None:
        self.items = items
        self.workers = workers
        self.seed = seed
        self.epoch = epoch
        first = self._item(0)
        self._has_masks = "mask" in first
        self._has_groups = "group" in first

    def __len__(self) -> int:
        return len(self.items)  # type: ignore[arg-type]

    def take(self, rows: Tensor) -> Batch:
        samples = [self._item(row) for row in rows.tolist()]
        x = _stack([sample["x"] for sample in samples], "x")
        y = _stack([sample["y"] for sample in samples], "y")
        mask = annotated = group = None
        if self._has_masks:
            masks = [sample.get("mask") for sample in samples]
            annotated = torch.tensor([one is not None for one in masks])
            blank = torch.zeros_like(x[0, :1])
            mask = _stack([blank if one is None else one for one in masks], "mask")
        if self._has_groups:
            group = torch.tensor([_group(sample) for sample in samples])
        return Batch(x=x, y=y, mask=mask, annotated=annotated, group=group, index=rows)

    def at_epoch(self, epoch: int) -> Dataset:
        return _MapStyle(self.items, workers=self.workers, seed=self.seed, epoch=epoch)

    def _item(self, row: int) -> dict[str, Any]:
        with drawn_from(self.seed, self.epoch, row):
            return _read_item(self.items[row], row)

    def batches(self, rows: Iterable[Tensor]) -> Iterator[Batch]:
        return read_ahead(self.take, rows, workers=self.workers)

    @cached_property
    def _columns(self) -> tuple[Tensor, Tensor]:
        items = self.items
        if _is_huggingface(items):  # a column of labels needs no image
            needed = [*KEYS["y"], *KEYS["group"]]
            kept = [name for name in items.column_names if name in needed]  # type: ignore[attr-defined]
            items = items.select_columns(kept)  # type: ignore[attr-defined]
            samples = (_named(items[row]) for row in range(len(self)))
        else:
            samples = (self._item(row) for row in range(len(self)))
        pairs = [(int(_tensor(sample["y"], "y")), _group(sample)) for sample in samples]
        labels, groups = torch.tensor(pairs).unbind(dim=1)
        return labels.contiguous(), groups.contiguous()

    @cached_property
    def card(self) -> Card:  # type: ignore[override]
        """Class and group names are the numbers that occur in the items."""
        groups = self.groups
        num_groups = 0 if groups is None else int(groups.max()) + 1
        return Card(
            classes=tuple(str(label) for label in range(int(self.labels.max()) + 1)),
            groups=tuple(str(group) for group in range(num_groups)),
            shape=tuple(_tensor(self._item(0)["x"], "x").shape),
        )

    @property
    def labels(self) -> Tensor:
        return self._columns[0]

    @property
    def groups(self) -> Tensor | None:
        return self._columns[1] if self._has_groups else None

    @property
    def has_masks(self) -> bool:
        return self._has_masks

    def digest(self) -> str:
        sha = hashlib.sha256()
        for row in range(len(self)):
            batch = self.take(torch.tensor([row]))
            for part in (batch.x, batch.y, batch.mask, batch.annotated, batch.group):
                sha.update(b"none" if part is None else part.contiguous().numpy().tobytes())
        return sha.hexdigest()


def _named(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: next((item[key] for key in keys if key in item), None)
        for name, keys in KEYS.items()
        if any(key in item for key in keys)
    }


def _read_item(item: object, row: int) -> dict[str, Any]:
    """Name the parts of an item: x, y and, if it has them, mask and group."""
    if isinstance(item, Mapping):
        parts = _named(item)
    elif isinstance(item, Sequence) and not isinstance(item, str) and 2 <= len(item) <= len(KEYS):
        parts = dict(zip(KEYS, item, strict=False))
    else:
        parts = {}
    if parts.get("x") is None or parts.get("y") is None:
        what = type(item).__name__
        if isinstance(item, Mapping):
            what = f"dict with the keys {', '.join(map(str, item))}"
        raise InvalidBatchError(f"Expected {ACCEPTED}, but item {row} is a {what}.")
    if isinstance(parts["x"], Image.Image):
        parts["x"] = _scaled(parts["x"], row)
    return parts


def _scaled(image: Image.Image, row: int) -> Tensor:
    """A grey or colour image of 8 bits as a tensor ``(C, H, W)`` in [0, 1]."""
    if image.mode not in ("L", "RGB"):
        raise InvalidBatchError(
            f"Expected images of mode RGB, or L for grey, but that of item {row} has mode "
            f"{image.mode}. Convert all alike, such as by image.convert('RGB')."
        )
    values = torch.from_numpy(np.array(image)).float().div_(255)
    return values[None] if image.mode == "L" else values.movedim(2, 0).contiguous()


def _stack(values: list[Any], name: str) -> Tensor:
    tensors = [_tensor(value, name) for value in values]
    shapes = sorted({tuple(tensor.shape) for tensor in tensors})
    if len(shapes) > 1:
        raise InvalidBatchError(
            f"Expected `{name}` of one shape in all items, but got {shapes[0]} and {shapes[1]}. "
            "Give your data set a transform that makes them alike."
        )
    return torch.stack(tensors)


def _tensor(value: Any, name: str) -> Tensor:
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidBatchError(
            f"Expected `{name}` of every item to be a tensor or an array, but got "
            f"{type(value).__name__}. Give your data set a transform that makes tensors."
        ) from error


def _group(sample: Mapping[str, Any]) -> int:
    group = sample.get("group")
    return -1 if group is None else int(group)
