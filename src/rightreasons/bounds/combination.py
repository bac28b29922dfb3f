"""Bounds of layers with several inputs: sums, averages, products and concatenations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rightreasons.bounds.box import Box, product
from rightreasons.bounds.linear import LinearMap, Shapes
from rightreasons.bounds.rule import backward_bounds, forward_bounds

__all__ = ["Add", "Average", "Concatenate", "Elementwise", "Multiply"]


@dataclass(frozen=True)
class Add(LinearMap):
    r"""A weighted sum of two inputs of one shape, :math:`v + s w`: residual connections.

    Args:
        factor: ``s``, 1 for a sum and -1 for a difference.
    """

    factor: float = 1.0

    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        """See `LinearMap.apply`."""
        del bias
        return torch.add(*inputs, alpha=abs(self.factor) if absolute else self.factor)

    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        """See `LinearMap.transposed`."""
        del shapes
        factor = abs(self.factor) if absolute else self.factor
        return gradient, gradient if factor == 1 else factor * gradient

    def num_terms(self, shapes: Shapes) -> int:
        """See `LinearMap.num_terms`."""
        del shapes
        return 2


@dataclass(frozen=True)
class Concatenate(LinearMap):
    """Several inputs, one after the other.

    Args:
        axis: Along which; never the batch, 0.
    """

    axis: int

    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        """See `LinearMap.apply`."""
        del absolute, bias
        return torch.cat(inputs, dim=self.axis)

    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        """See `LinearMap.transposed`."""
        del absolute
        sizes = [shape[self.axis - 1] for shape in shapes]
        return torch.split(gradient, sizes, dim=self.axis)


@dataclass(frozen=True)
class Elementwise(LinearMap):
    r"""A factor and an offset for each number: :math:`s v + t`.

    Args:
        factor: A number, or a tensor to be broadcast to a sample.
        shift: The same for the offset.
    """

    factor: float | Tensor = 1.0
    shift: float | Tensor = 0.0

    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        """See `LinearMap.apply`."""
        factor: Any = abs(self.factor) if absolute else self.factor
        scaled: Tensor = inputs[0] * factor
        return scaled + self.shift if bias else scaled

    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        """See `LinearMap.transposed`."""
        del shapes
        return (self.apply(gradient, absolute=absolute),)

    def num_terms(self, shapes: Shapes) -> int:
        """See `LinearMap.num_terms`."""
        del shapes
        return 2

    def offset(self, num_axes: int) -> Tensor | None:
        """See `LinearMap.offset`."""
        del num_axes
        if isinstance(self.shift, Tensor):
            return self.shift
        return torch.tensor(self.shift, dtype=torch.float64)


@dataclass(frozen=True)
class Average(LinearMap):
    """The mean, or the sum, over some axes.

    Args:
        axes: Counted with the batch, from 1.
        keeps_axes: Whether axes of length 1 stay.
        sums: Whether the sum is meant.
    """

    axes: tuple[int, ...]
    keeps_axes: bool = False
    sums: bool = False

    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        """See `LinearMap.apply`."""
        del absolute, bias
        reduced = torch.sum if self.sums else torch.mean
        return reduced(inputs[0], dim=self.axes, keepdim=self.keeps_axes)

    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        """See `LinearMap.transposed`."""
        del absolute
        shape = shapes[0]
        if not self.keeps_axes:
            for axis in sorted(self.axes):
                gradient = gradient.unsqueeze(axis)
        spread = gradient.expand(gradient.shape[0], *shape)
        return (spread if self.sums else spread / self._count(shape),)

    def num_terms(self, shapes: Shapes) -> int:
        """See `LinearMap.num_terms`."""
        return self._count(shapes[0]) + 2

    def _count(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape[axis - 1] for axis in self.axes)


@dataclass(frozen=True)
class Multiply:
    """Two activations of one shape, multiplied number by number."""


@forward_bounds.register
def _(layer: Multiply, *boxes: Box, outward: bool) -> Box:
    del layer
    return product(*boxes, outward=outward)


@backward_bounds.register
def _(
    layer: Multiply, gradient: Box, inputs: tuple[Box, ...], output: Box, *, outward: bool
) -> tuple[Box, ...]:
    del layer, output
    first, second = inputs
    return product(gradient, second, outward=outward), product(gradient, first, outward=outward)
