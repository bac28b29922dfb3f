"""Bounds of average pooling, plain and adaptive, in one and two dimensions."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rightreasons.bounds.linear_map import LinearMap, Shapes, linear_map

__all__ = ["AdaptiveAveragePooling", "AveragePooling"]


class AveragePooling(LinearMap):
    """The affine view of `nn.AvgPool1d` and `nn.AvgPool2d`: all weights are positive."""

    def __init__(self, layer: nn.AvgPool1d | nn.AvgPool2d) -> None:
        self.is_flat = isinstance(layer, nn.AvgPool1d)
        kernel, stride, padding = (
            _plane(size, self.is_flat, rest)
            for size, rest in ((layer.kernel_size, 1), (layer.stride, 1), (layer.padding, 0))
        )
        self.window = kernel
        divisor = None if isinstance(layer, nn.AvgPool1d) else layer.divisor_override
        self.settings = (
            *(kernel, stride, padding),
            *(layer.ceil_mode, layer.count_include_pad, divisor),
        )

    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        """See `LinearMap.apply`."""
        del absolute, bias
        x = inputs[0].unsqueeze(2) if self.is_flat else inputs[0]
        pooled = functional.avg_pool2d(x, *self.settings)
        return pooled.squeeze(2) if self.is_flat else pooled

    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        """See `LinearMap.transposed`."""
        del absolute
        x = gradient.new_zeros(gradient.shape[0], *shapes[0])
        if self.is_flat:
            gradient, x = gradient.unsqueeze(2), x.unsqueeze(2)
        pulled: Tensor = torch.ops.aten.avg_pool2d_backward(gradient, x, *self.settings)
        return (pulled.squeeze(2) if self.is_flat else pulled,)

    def num_terms(self, shapes: Shapes) -> int:
        """See `LinearMap.num_terms`."""
        del shapes
        return math.prod(self.window) + 2


class AdaptiveAveragePooling(LinearMap):
    """The affine view of `nn.AdaptiveAvgPool1d` and `nn.AdaptiveAvgPool2d`."""

    def __init__(self, layer: nn.AdaptiveAvgPool1d | nn.AdaptiveAvgPool2d) -> None:
        self.is_flat = isinstance(layer, nn.AdaptiveAvgPool1d)
        self.size = _plane(layer.output_size, self.is_flat, 1)

    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        """See `LinearMap.apply`."""
        del absolute, bias
        x = inputs[0].unsqueeze(2) if self.is_flat else inputs[0]
        pooled = functional.adaptive_avg_pool2d(x, self.size)
        return pooled.squeeze(2) if self.is_flat else pooled

    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        """See `LinearMap.transposed`."""
        del absolute
        x = gradient.new_zeros(gradient.shape[0], *shapes[0])
        if self.is_flat:
            gradient, x = gradient.unsqueeze(2), x.unsqueeze(2)
        pulled: Tensor = torch.ops.aten._adaptive_avg_pool2d_backward(gradient, x)
        return (pulled.squeeze(2) if self.is_flat else pulled,)

    def num_terms(self, shapes: Shapes) -> int:
        """See `LinearMap.num_terms`."""
        sides = shapes[0][1:] if not self.is_flat else (1, *shapes[0][1:])
        pairs = [
            (side, side if size is None else size)
            for side, size in zip(sides, self.size, strict=True)
        ]
        gathered = math.prod(-(-side // size) + 1 for side, size in pairs)
        spread = math.prod(-(-size // side) + 1 for side, size in pairs)
        return max(gathered, spread) + 2


def _plane(size: Any, is_flat: bool, rest: int) -> tuple[int, int]:
    sizes = tuple(size) if isinstance(size, tuple | list) else (size,)
    if is_flat:
        return rest, sizes[0]
    return sizes[0], sizes[-1]


linear_map.register(nn.AvgPool1d, AveragePooling)
linear_map.register(nn.AvgPool2d, AveragePooling)
linear_map.register(nn.AdaptiveAvgPool1d, AdaptiveAveragePooling)
linear_map.register(nn.AdaptiveAvgPool2d, AdaptiveAveragePooling)
