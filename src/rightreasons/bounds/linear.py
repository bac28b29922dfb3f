"""Bounds of fully connected layers."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from rightreasons.bounds.linear_map import LinearMap, Shapes, linear_map

__all__ = ["FullyConnected"]


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
