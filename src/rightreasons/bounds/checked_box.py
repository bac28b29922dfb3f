"""Checks of what a user gives to be certified."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.bounds.box import Box
from rightreasons.errors import InvalidBatchError

__all__ = ["METHODS", "checked_box", "checked_columns", "checked_labels"]

METHODS = ("ibp", "crown")
"""Ways to bound: plain intervals, or linear relaxations intersected with them."""

_TYPES = (torch.float32, torch.float64)


def checked_box(lower: Tensor, upper: Tensor, *, outward: bool) -> Box:
    """The box between two ends, if they are fit to be ends."""
    for name, end in (("lower", lower), ("upper", upper)):
        if not isinstance(end, Tensor) or end.dtype not in _TYPES:
            got = end.dtype if isinstance(end, Tensor) else type(end).__name__
            raise InvalidBatchError(
                f"Expected `{name}` to be a tensor of float32 or float64, but got {got}."
            )
        if end.ndim < 2:
            raise InvalidBatchError(
                f"Expected `{name}` of shape (N, *S) with at least one feature axis, but got "
                f"{tuple(end.shape)}. Use {name}.unsqueeze(0) for a single sample."
            )
        if not bool(torch.isfinite(end).all()):
            raise InvalidBatchError(
                f"Expected finite `{name}`, but got NaN or infinity. Bound a smaller box."
            )
    if lower.shape != upper.shape or lower.dtype != upper.dtype:
        raise InvalidBatchError(
            f"Expected `lower` and `upper` of one shape and type, but got {tuple(lower.shape)} of "
            f"{lower.dtype} and {tuple(upper.shape)} of {upper.dtype}."
        )
    if bool((lower > upper).any()):
        count = int((lower > upper).sum())
        raise InvalidBatchError(
            f"Expected `lower` nowhere above `upper`, but got {count} features where it is."
        )
    return Box.between(lower, upper, outward=outward)


def checked_labels(y: Tensor, logits: Tensor) -> Tensor:
    """The labels, if they fit the logits; both must be those of classification."""
    if logits.ndim != 2:
        raise InvalidBatchError(
            f"Expected the model to give logits of shape (N, classes), but got a shape of "
            f"{tuple(logits.shape)}."
        )
    size, num_classes = logits.shape
    if not isinstance(y, Tensor) or y.shape != (size,) or y.dtype.is_floating_point:
        got = f"{tuple(y.shape)} of {y.dtype}" if isinstance(y, Tensor) else type(y).__name__
        raise InvalidBatchError(
            f"Expected `y` to be whole numbers of shape ({size},), one class a sample, but got "
            f"{got}."
        )
    if size and not 0 <= int(y.min()) <= int(y.max()) < num_classes:
        raise InvalidBatchError(
            f"Expected `y` from 0 to {num_classes - 1}, but got values from {int(y.min())} to "
            f"{int(y.max())}."
        )
    return y.long()


def checked_columns(columns: Tensor | None, num_features: int) -> Tensor | None:
    """The chosen features, if there are such."""
    if columns is None:
        return None
    fits = isinstance(columns, Tensor) and columns.ndim == 1 and columns.dtype == torch.int64
    if fits and len(columns):
        fits = 0 <= int(columns.min()) <= int(columns.max()) < num_features
    if not fits:
        raise InvalidBatchError(
            f"Expected `columns` to be a line of whole numbers from 0 to {num_features - 1}, the "
            f"flattened features of a sample, but got {columns!r}."
        )
    return columns
