"""Boxes of lower and upper ends, rounded outward, and checks of boxes that users give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from rightreasons.errors import InvalidBatchError
from rightreasons.types import Interval

__all__ = [
    "FUNCTION_ERROR",
    "METHODS",
    "Box",
    "checked_box",
    "checked_columns",
    "checked_labels",
    "full_precision",
    "honest_ends",
    "precision",
    "product",
    "product_ends",
    "rounded_apart",
    "smallest",
    "sum_error",
]

FUNCTION_ERROR = 16
"""Relative error of a transcendental function such as ``tanh``, in units of ``eps``."""

_SPARE = 1.05  # second-order terms of the error of sums of up to a hundred thousand summands


def precision(like: Tensor) -> float:
    """The distance from 1 to the next larger number of the tensor's type."""
    return torch.finfo(like.dtype).eps


def smallest(like: Tensor) -> float:
    """More than all underflows of a layer together, and less than anything that matters."""
    return torch.finfo(like.dtype).tiny * 2.0**20


def sum_error(num_terms: int, like: Tensor) -> float:
    """The relative error of a sum twice: once in the model and once in the bound.

    Example:
        >>> sum_error(0, torch.zeros(1)) < sum_error(784, torch.zeros(1)) < 1.1e-4
        True
    """
    return _SPARE * (num_terms + 4) * precision(like)


@contextmanager
def full_precision(like: Tensor) -> Iterator[None]:
    """Switch autocast off for a while: in half precision, bounds would not be bounds.

    Args:
        like: A tensor on the device in question.
    """
    device = like.device.type
    if not torch.is_autocast_enabled(device):
        yield
        return
    with torch.autocast(device, enabled=False):
        yield


class Box(NamedTuple):
    r"""All tensors :math:`v` with :math:`|v - c| \le r`, element by element.

    An affine layer takes a box to a box by two products, the centre with its weights and the
    radius with their magnitudes, where lower and upper ends would take four.

    Args:
        center: ``(N, *S)``.
        radius: ``(N, *S)``, nowhere negative; a zero without axes says that the box is a point,
            which saves the radius' products.

    Example:
        >>> box = Box.between(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 1.0]]))
        >>> box.center, box.radius
        (tensor([[0.5000, 1.0000]]), tensor([[0.5000, 0.0000]]))
    """

    center: Tensor
    radius: Tensor

    @classmethod
    def between(cls, lower: Tensor, upper: Tensor, *, outward: bool = False) -> Box:
        """The box with these ends; ``outward`` makes sure that it holds them despite rounding."""
        center = (lower + upper) * 0.5
        if not outward:
            return cls(center, (upper - lower) * 0.5)
        reach = torch.maximum(upper - center, center - lower)
        return cls(center, reach * (1 + 4 * precision(center)) + smallest(center))

    @classmethod
    def exact(cls, center: Tensor) -> Box:
        """A box that holds ``center`` alone."""
        return cls(center, center.new_zeros(()))

    @property
    def is_exact(self) -> bool:
        """Whether the box says of itself that it is a point."""
        return self.radius.ndim == 0

    @property
    def lower(self) -> Tensor:
        """The lower end, rounded to nearest."""
        return self.center - self.radius

    @property
    def upper(self) -> Tensor:
        """The upper end, rounded to nearest."""
        return self.center + self.radius

    @property
    def magnitude(self) -> Tensor:
        """The largest magnitude in the box, rounded to nearest."""
        return self.center.abs() + self.radius

    def full_radius(self) -> Tensor:
        """The radius with the axes of the centre."""
        return self.radius.expand_as(self.center) if self.is_exact else self.radius

    def ends(self, *, outward: bool = False) -> tuple[Tensor, Tensor]:
        """Lower and upper end; ``outward`` rounds them away from the centre."""
        lower, upper = self.lower, self.upper
        if not outward:
            return lower, upper
        ulps, least = 2 * precision(self.center), smallest(self.center)
        return lower - (lower.abs() * ulps + least), upper + (upper.abs() * ulps + least)

    def interval(self, *, outward: bool = False) -> Interval:
        """The box as an `Interval`."""
        return Interval(*self.ends(outward=outward))

    def reshape(self, shape: tuple[int, ...] | torch.Size) -> Box:
        """The same box with other axes."""
        radius = self.radius if self.is_exact else self.radius.reshape(shape)
        return Box(self.center.reshape(shape), radius)

    def flatten(self) -> Box:
        """The same box as ``(N, numel)``."""
        return self.reshape((self.center.shape[0], -1))


def product_ends(
    first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """The smallest and the largest product of numbers between two pairs of ends."""
    corners = [left * right for left in first for right in second]
    lower, upper = corners[0], corners[0]
    for corner in corners[1:]:
        lower, upper = torch.minimum(lower, corner), torch.maximum(upper, corner)
    return lower, upper


def product(first: Box, second: Box, *, outward: bool) -> Box:
    """The box of all products; exact up to rounding."""
    if first.is_exact and not outward:
        return Box(first.center * second.center, first.center.abs() * second.full_radius())
    if second.is_exact and not outward:
        return product(second, first, outward=False)
    ends = product_ends(first.ends(outward=outward), second.ends(outward=outward))
    return Box.between(*(rounded_apart(*ends) if outward else ends), outward=outward)


def rounded_apart(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Both ends moved apart by more than the rounding of a product or two."""
    ulps, least = 4 * precision(lower), smallest(lower)
    return lower - (lower.abs() * ulps + least), upper + (upper.abs() * ulps + least)


def honest_ends(ends: tuple[Tensor, Tensor], boxes: Iterable[Box]) -> tuple[Tensor, Tensor]:
    """The ends, but minus and plus infinity for samples in which any box overflowed.

    From infinite ends follow NaNs, and from these anything, such as a ReLU that seems to be off.

    Args:
        ends: Of some result, ``(N, ...)``.
        boxes: All that the result was derived from, ``(N, ...)`` each.
    """
    lower, upper = ends
    fits = ~torch.isnan(lower) & ~torch.isnan(upper)
    for box in boxes:
        finite = torch.isfinite(box.magnitude).flatten(1).all(dim=1)
        fits = fits & finite.view(-1, *[1] * (lower.ndim - 1))
    if bool(fits.all()):
        return ends
    return (
        torch.where(fits, lower, torch.full_like(lower, -torch.inf)),
        torch.where(fits, upper, torch.full_like(upper, torch.inf)),
    )


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
