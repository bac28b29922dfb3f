"""Bounds of linear maps: the rule that affine layers share, and fully connected layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import singledispatch

from torch import Tensor, nn
from torch.nn import functional

from rightreasons.bounds.box import Box, smallest, sum_error
from rightreasons.errors import UnsupportedLayerError

__all__ = ["FullyConnected", "LinearMap", "Shapes", "linear_map", "map_backward", "map_forward"]

Shapes = Sequence[tuple[int, ...]]


class LinearMap(ABC):
    r"""A layer :math:`x \mapsto A x + b` of one or several inputs, sample by sample.

    Everything the bounds need to know of an affine layer: the product with :math:`A`, the product
    with :math:`A^T`, both also with :math:`|A|`, and the offset :math:`b`.
    """

    @abstractmethod
    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        r"""The product :math:`A x`.

        Args:
            inputs: ``(N, *S)`` each.
            absolute: Use :math:`|A|`; never together with ``bias``.
            bias: Add the offset.
        """

    @abstractmethod
    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        r"""The product :math:`A^T g`, one part for each input.

        Args:
            gradient: ``(N, *S)`` with the axes of an output.
            shapes: The inputs' shapes without the batch.
            absolute: Use :math:`|A|`.
        """

    def num_terms(self, shapes: Shapes) -> int:
        """The most summands of an output or of a gradient; 0 for a layer that only copies."""
        del shapes
        return 0

    def offset(self, num_axes: int) -> Tensor | None:
        """The offset ``b``, to be broadcast to ``(N, *S)``; None where there is none.

        Args:
            num_axes: How many axes a sample of the output has.
        """
        del num_axes
        return None

    def offset_magnitude(self, num_axes: int) -> Tensor | None:
        """The magnitudes of what the offset is summed from."""
        offset = self.offset(num_axes)
        return None if offset is None else offset.abs()


@singledispatch
def linear_map(layer: object) -> LinearMap:
    """The affine view of a layer; register one for a layer kind to have it bounded.

    A layer that is a `LinearMap` itself needs none.
    """
    if isinstance(layer, LinearMap):
        return layer
    raise UnsupportedLayerError(
        f"Expected an affine layer, but got {type(layer).__name__}. Add its affine view with "
        "`@linear_map.register`, or its rules with `@forward_bounds.register` and "
        "`@backward_bounds.register`."
    )


def map_forward(affine: LinearMap, *boxes: Box, outward: bool) -> Box:
    r"""The image of boxes: centre :math:`A c + b`, radius :math:`|A| r`."""
    center = affine.apply(*(box.center for box in boxes), bias=True)
    num_terms = affine.num_terms(_shapes(boxes)) if outward else 0
    if not num_terms:
        if all(box.is_exact for box in boxes):
            return Box.exact(center)
        radii = [box.full_radius() for box in boxes]
        return Box(center, affine.apply(*radii, absolute=True))
    error = sum_error(num_terms, center)
    radii = [_widened(box, error) for box in boxes]
    radius = affine.apply(*radii, absolute=True) + smallest(center)
    offset = affine.offset_magnitude(center.ndim - 1)
    return Box(center, radius if offset is None else radius + error * offset)


def map_backward(
    affine: LinearMap, gradient: Box, inputs: Sequence[Box], *, outward: bool
) -> tuple[Box, ...]:
    r"""The box of gradients at the inputs: centre :math:`A^T c`, radius :math:`|A|^T r`."""
    shapes = _shapes(inputs)
    centers = affine.transposed(gradient.center, shapes)
    num_terms = affine.num_terms(shapes) if outward else 0
    if not num_terms:
        if gradient.is_exact:
            return tuple(Box.exact(center) for center in centers)
        radii = affine.transposed(gradient.radius, shapes, absolute=True)
        return tuple(Box(*pair) for pair in zip(centers, radii, strict=True))
    error = sum_error(num_terms, gradient.center)
    radii = affine.transposed(_widened(gradient, error), shapes, absolute=True)
    least = smallest(gradient.center)
    return tuple(Box(center, radius + least) for center, radius in zip(centers, radii, strict=True))


def _widened(box: Box, error: float) -> Tensor:
    return box.radius * (1 + error) + error * box.center.abs()


def _shapes(boxes: Sequence[Box]) -> Shapes:
    return [tuple(box.center.shape[1:]) for box in boxes]


class FullyConnected(LinearMap):
    r"""The affine view of `nn.Linear`: :math:`W x + b` along the last axis."""

    def __init__(self, layer: nn.Linear) -> None:
        self.weight: Tensor = layer.weight
        self.bias: Tensor | None = layer.bias

    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        """See `LinearMap.apply`."""
        weight = self.weight.abs() if absolute else self.weight
        return functional.linear(inputs[0], weight, self.bias if bias else None)

    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        """See `LinearMap.transposed`."""
        del shapes
        return (gradient @ (self.weight.abs() if absolute else self.weight),)

    def num_terms(self, shapes: Shapes) -> int:
        """See `LinearMap.num_terms`."""
        del shapes
        return max(self.weight.shape)

    def offset(self, num_axes: int) -> Tensor | None:
        """See `LinearMap.offset`."""
        del num_axes
        return self.bias


linear_map.register(nn.Linear, FullyConnected)
