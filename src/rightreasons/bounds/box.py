"""A box of tensors: all that lie within a radius of a centre, element by element."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rightreasons.bounds.rounding import precision, smallest
from rightreasons.types import Interval

__all__ = ["Box"]


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
