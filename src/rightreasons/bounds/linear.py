"""Bounds of linear maps: the rule that affine layers share, and fully connected layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import singledispatch

from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from rightreasons.bounds.box import Box, sum_error, underflow_error
from rightreasons.errors import UnsupportedLayerError

__all__ = [
    "DiagonalMap",
    "FullyConnected",
    "LinearMap",
    "Shapes",
    "linear_map",
    "map_backward",
    "map_forward",
]

Shapes = Sequence[tuple[int, ...]]
"""The shapes of a layer's inputs, without the batch."""


class LinearMap(ABC):
    r"""A layer :math:`x \mapsto A x + b` of one or several inputs, sample by sample.

    Bounds need no more of an affine layer than the products with :math:`A` and :math:`A^T`, both
    also with :math:`|A|`, and the offset :math:`b`.
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
            gradient: ``(N, *S)``, shaped as the output.
            shapes: The inputs' shapes without the batch.
            absolute: Use :math:`|A|`.
        """

    def num_terms(self, shapes: Shapes) -> int:
        """The most summands of an output or of a gradient; 0 for a layer that only copies."""
        del shapes
        return 0

    def offset(self, num_axes: int) -> Tensor | None:
        """The offset ``b``, which broadcasts to ``(N, *S)``; None if the layer has none.

        Args:
            num_axes: Number of axes of an output, without the batch.
        """
        del num_axes
        return None

    def offset_magnitude(self, num_axes: int) -> Tensor | None:
        """The sum of the magnitudes of the offset's summands."""
        offset = self.offset(num_axes)
        return None if offset is None else offset.abs()


class DiagonalMap(LinearMap):
    """A linear map that multiplies each element by a factor, so that it is its own transpose."""

    @override
    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        del shapes
        return (self.apply(gradient, absolute=absolute),)


@singledispatch
def linear_map(layer: object) -> LinearMap:
    """The affine view of a layer; register a function here to bound a new kind of affine layer.

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
    radii = [_radius_with_error(box, error) for box in boxes]
    radius = affine.apply(*radii, absolute=True) + underflow_error(center)
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
    radii = affine.transposed(_radius_with_error(gradient, error), shapes, absolute=True)
    least = underflow_error(gradient.center)
    return tuple(Box(center, radius + least) for center, radius in zip(centers, radii, strict=True))


def _radius_with_error(box: Box, error: float) -> Tensor:
    # A sum of products a c with the relative error e is off by at most e |a| |c|: as if |c| were
    # part of the radius.
    return box.radius * (1 + error) + error * box.center.abs()


def _shapes(boxes: Sequence[Box]) -> Shapes:
    return [tuple(box.center.shape[1:]) for box in boxes]


class FullyConnected(LinearMap):
    r"""The affine view of `nn.Linear`: :math:`W x + b` along the last axis."""

    def __init__(self, layer: nn.Linear) -> None:
        self.weight: Tensor = layer.weight
        self.bias: Tensor | None = layer.bias

    @override
    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        weight = self.weight.abs() if absolute else self.weight
        return functional.linear(inputs[0], weight, self.bias if bias else None)

    @override
    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        del shapes
        return (gradient @ (self.weight.abs() if absolute else self.weight),)

    @override
    def num_terms(self, shapes: Shapes) -> int:
        del shapes
        return max(self.weight.shape)

    @override
    def offset(self, num_axes: int) -> Tensor | None:
        del num_axes
        return self.bias


linear_map.register(nn.Linear, FullyConnected)
