"""Boxes of tensors, their rounding errors, and checks of boxes that users give.

Every floating point operation is rounded. Bounds that are computed like the model's own numbers
can therefore miss them by a little. With ``outward=True`` every step moves the ends of its box
outward: by more than its own rounding error and the model's together.

- A sum of ``n`` products is off by at most about ``n`` units of the last place: `sum_error`.
- A function such as ``tanh`` is off by a few units: `FUNCTION_ERROR`.
- Tiny numbers are rounded to zero, which no relative error covers: `underflow_error`.
"""

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
    "check_box",
    "check_columns",
    "check_labels",
    "full_precision",
    "precision",
    "product",
    "product_ends",
    "round_outward",
    "sum_error",
    "underflow_error",
    "widen_overflowed",
    "widen_overflowed_box",
]

METHODS = ("ibp", "crown")
"""Ways to bound: plain intervals, or linear relaxations intersected with them."""
FUNCTION_ERROR = 16
"""Relative error of a transcendental function such as ``tanh``, in units of ``eps``."""
_SPARE = 1.05  # covers second-order terms of the error, up to a hundred thousand summands
_TYPES = (torch.float32, torch.float64)


class Box(NamedTuple):
    r"""All tensors :math:`v` with :math:`|v - c| \le r`, element by element.

    An affine layer maps a box by two products: the centre with its weights and the radius with
    their magnitudes. Lower and upper ends would take four.

    Args:
        center: ``(N, *S)``.
        radius: ``(N, *S)``, nowhere negative. A zero without axes marks a box that is a point, for
            which layers skip the radius.

    Example:
        >>> box = Box.between(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 1.0]]))
        >>> box.center, box.radius
        (tensor([[0.5000, 1.0000]]), tensor([[0.5000, 0.0000]]))
    """

    center: Tensor
    radius: Tensor

    @classmethod
    def between(cls, lower: Tensor, upper: Tensor, *, outward: bool = False) -> Box:
        """The box with these ends; with ``outward`` it contains them despite rounding."""
        center = (lower + upper) * 0.5
        if not outward:
            return cls(center, (upper - lower) * 0.5)
        reach = torch.maximum(upper - center, center - lower)
        return cls(center, reach * (1 + 4 * precision(center)) + underflow_error(center))

    @classmethod
    def exact(cls, center: Tensor) -> Box:
        """The box that contains ``center`` alone."""
        return cls(center, center.new_zeros(()))

    @property
    def is_exact(self) -> bool:
        """Whether the box is marked as a point."""
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
        ulps, least = 2 * precision(self.center), underflow_error(self.center)
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


def product(first: Box, second: Box, *, outward: bool) -> Box:
    """The box of all products; exact up to rounding."""
    if first.is_exact and not outward:
        return Box(first.center * second.center, first.center.abs() * second.full_radius())
    if second.is_exact and not outward:
        return product(second, first, outward=False)
    ends = product_ends(first.ends(outward=outward), second.ends(outward=outward))
    return Box.between(*(round_outward(*ends) if outward else ends), outward=outward)


def product_ends(
    first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """The smallest and the largest product of numbers between two pairs of ends."""
    corners = [left * right for left in first for right in second]
    lower, upper = corners[0], corners[0]
    for corner in corners[1:]:
        lower, upper = torch.minimum(lower, corner), torch.maximum(upper, corner)
    return lower, upper


def round_outward(lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Move both ends apart by more than the rounding error of two products."""
    ulps, least = 4 * precision(lower), underflow_error(lower)
    return lower - (lower.abs() * ulps + least), upper + (upper.abs() * ulps + least)


def widen_overflowed(ends: tuple[Tensor, Tensor], boxes: Iterable[Box]) -> tuple[Tensor, Tensor]:
    """Make the ends infinite for samples in which any box overflowed.

    Infinite ends lead to NaNs, and a NaN may look like anything, such as a ReLU that is off.

    Args:
        ends: Lower and upper end of a result, ``(N, ...)``.
        boxes: All boxes that the result was derived from, ``(N, ...)`` each.
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


def widen_overflowed_box(box: Box, boxes: Iterable[Box]) -> Box:
    """Make a box infinite for samples in which any of the boxes that led to it overflowed."""
    with torch.no_grad():
        zeros = box.center.new_zeros(len(box.center), *[1] * (box.center.ndim - 1))
        overflowed = torch.isinf(widen_overflowed((zeros, zeros), boxes)[0])
    if not bool(overflowed.any()):
        return box
    return Box(
        torch.where(overflowed, 0.0, box.center), torch.where(overflowed, torch.inf, box.radius)
    )


def precision(like: Tensor) -> float:
    """The distance from 1 to the next larger number of the tensor's type."""
    return torch.finfo(like.dtype).eps


def underflow_error(like: Tensor) -> float:
    """A number above the sum of a layer's underflows, and below anything that matters."""
    return torch.finfo(like.dtype).tiny * 2.0**20


def sum_error(num_terms: int, like: Tensor) -> float:
    """Twice the relative error of a sum: one for the model, one for the bound.

    Example:
        >>> sum_error(0, torch.zeros(1)) < sum_error(784, torch.zeros(1)) < 1.1e-4
        True
    """
    return _SPARE * (num_terms + 4) * precision(like)


@contextmanager
def full_precision(like: Tensor) -> Iterator[None]:
    """Switch autocast off for a block: in half precision, bounds would not hold.

    Args:
        like: A tensor on the device whose autocast is switched off.
    """
    device = like.device.type
    if not torch.is_autocast_enabled(device):
        yield
        return
    with torch.autocast(device, enabled=False):
        yield


def check_box(lower: Tensor, upper: Tensor, *, outward: bool) -> Box:
    """The box between two ends, after a check of their type, shape, values and order."""
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


def check_labels(y: Tensor, logits: Tensor) -> Tensor:
    """The labels, after a check that they and the logits are those of a classification."""
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


def check_columns(columns: Tensor | None, num_features: int) -> Tensor | None:
    """The chosen features, after a check that they exist."""
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
