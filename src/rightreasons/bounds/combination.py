"""Bounds of layers with several inputs: sums, averages, products and concatenations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.bounds.box import Box, product
from rightreasons.bounds.linear import DiagonalMap, LinearMap, Shapes
from rightreasons.bounds.rule import backward_bounds, forward_bounds

__all__ = ["Add", "Average", "Concatenate", "Elementwise", "Multiply"]


@dataclass(frozen=True)
class Add(LinearMap):
    r"""A weighted sum of two inputs of one shape, :math:`v + s w`: residual connections.

    Args:
        factor: ``s``, 1 for a sum and -1 for a difference.
    """

    factor: float = 1.0

    @override
    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        del bias
        return torch.add(*inputs, alpha=abs(self.factor) if absolute else self.factor)

    @override
    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        del shapes
        factor = abs(self.factor) if absolute else self.factor
        return gradient, gradient if factor == 1 else factor * gradient

    @override
    def num_terms(self, shapes: Shapes) -> int:
        del shapes
        return 2


@dataclass(frozen=True)
class Concatenate(LinearMap):
    """Several inputs, joined along an axis.

    Args:
        axis: The axis to join along; never 0, the batch.
    """

    axis: int

    @override
    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        del absolute, bias
        return torch.cat(inputs, dim=self.axis)

    @override
    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        del absolute
        sizes = [shape[self.axis - 1] for shape in shapes]
        return torch.split(gradient, sizes, dim=self.axis)


@dataclass(frozen=True)
class Elementwise(DiagonalMap):
    r"""A factor and an offset for each element: :math:`s v + t`.

    Args:
        factor: A number, or a tensor that broadcasts to a sample.
        shift: The offset, in the same form.
    """

    factor: float | Tensor = 1.0
    shift: float | Tensor = 0.0

    @override
    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        factor: Any = abs(self.factor) if absolute else self.factor
        scaled: Tensor = inputs[0] * factor
        return scaled + self.shift if bias else scaled

    @override
    def num_terms(self, shapes: Shapes) -> int:
        del shapes
        return 2

    @override
    def offset(self, num_axes: int) -> Tensor | None:
        del num_axes
        if isinstance(self.shift, Tensor):
            return self.shift
        return torch.tensor(self.shift, dtype=torch.float64)


@dataclass(frozen=True)
class Average(LinearMap):
    """The mean, or the sum, over some axes.

    Args:
        axes: The axes to average over; the batch is axis 0 and never among them.
        keeps_axes: Whether the axes stay, with length 1.
        sums: Whether to sum and not to average.
    """

    axes: tuple[int, ...]
    keeps_axes: bool = False
    sums: bool = False

    @override
    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        del absolute, bias
        reduce = torch.sum if self.sums else torch.mean
        return reduce(inputs[0], dim=self.axes, keepdim=self.keeps_axes)

    @override
    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        del absolute
        shape = shapes[0]
        if not self.keeps_axes:
            for axis in sorted(self.axes):
                gradient = gradient.unsqueeze(axis)
        spread = gradient.expand(gradient.shape[0], *shape)
        return (spread if self.sums else spread / self._count(shape),)

    @override
    def num_terms(self, shapes: Shapes) -> int:
        return self._count(shapes[0]) + 2

    def _count(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape[axis - 1] for axis in self.axes)


@dataclass(frozen=True)
class Multiply:
    """The product of two activations of one shape, element by element."""


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
