"""Bounds of average pooling and max pooling."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from rightreasons.bounds.box import Box, smallest, sum_error
from rightreasons.bounds.linear import LinearMap, Shapes, linear_map
from rightreasons.bounds.rule import backward_bounds, forward_bounds

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


_Pooling = nn.MaxPool1d | nn.MaxPool2d


class _Windows(NamedTuple):
    """How the windows of a pooling lie on a plane; a line is a plane of height 1."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @classmethod
    def of(cls, layer: _Pooling) -> _Windows:
        flat = isinstance(layer, nn.MaxPool1d)
        return cls(
            _window_size(layer.kernel_size, 1, flat),
            _window_size(layer.stride, 1, flat),
            _window_size(layer.padding, 0, flat),
            _window_size(layer.dilation, 1, flat),
        )

    def edges(self, sides: torch.Size, outputs: torch.Size) -> list[int]:
        """Padding (left, right, top, bottom) with which all windows lie inside."""
        edges = []
        for axis in (1, 0):
            reach = (outputs[axis] - 1) * self.stride[axis]
            reach += self.dilation[axis] * (self.kernel[axis] - 1) + 1
            before = self.padding[axis]
            edges += [before, max(reach - sides[axis] - before, 0)]
        return edges


@forward_bounds.register(nn.MaxPool1d)
@forward_bounds.register(nn.MaxPool2d)
def _(layer: _Pooling, *boxes: Box, outward: bool) -> Box:
    lower, upper = boxes[0].ends(outward=outward)
    return Box.between(_pooled(layer, lower), _pooled(layer, upper), outward=outward)


@backward_bounds.register(nn.MaxPool1d)
@backward_bounds.register(nn.MaxPool2d)
def _(
    layer: _Pooling, gradient: Box, inputs: tuple[Box, ...], output: Box, *, outward: bool
) -> tuple[Box, ...]:
    """An element may be its window's largest if it can reach every other's lower end.

    It is for certain if its lower end is above every other's upper end. Ties are left open.
    """
    del output
    windows = _Windows.of(layer)
    ends = inputs[0].ends(outward=outward)
    low, high = gradient.ends(outward=outward)
    if isinstance(layer, nn.MaxPool1d):
        ends = ends[0].unsqueeze(2), ends[1].unsqueeze(2)
        low, high = low.unsqueeze(2), high.unsqueeze(2)
    sides = ends[0].shape[2:]
    edges = windows.edges(sides, low.shape[2:])
    with torch.no_grad():
        lower, upper = (_columns(end, windows, edges) for end in ends)  # (N, C, window, places)
        possible = upper >= lower.amax(dim=2, keepdim=True)
        certain = lower > _largest_of_others(upper)
    low, high = low.flatten(2).unsqueeze(2), high.flatten(2).unsqueeze(2)
    low_parts = torch.where(certain, low, low.clamp(max=0) * possible)
    high_parts = torch.where(certain, high, high.clamp(min=0) * possible)
    low_sum, high_sum = (_folded(parts, windows, edges, sides) for parts in (low_parts, high_parts))
    if outward:
        error = sum_error(windows.kernel[0] * windows.kernel[1], low_sum)
        reach = torch.maximum(low_parts.abs(), high_parts.abs())
        slack = error * _folded(reach, windows, edges, sides) + smallest(low_sum)
        low_sum, high_sum = low_sum - slack, high_sum + slack
    box = Box.between(low_sum, high_sum, outward=outward)
    return (box.reshape(inputs[0].center.shape),)


def _pooled(layer: _Pooling, x: Tensor) -> Tensor:
    pool = functional.max_pool1d if isinstance(layer, nn.MaxPool1d) else functional.max_pool2d
    return pool(x, layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode)


def _columns(x: Tensor, windows: _Windows, edges: list[int]) -> Tensor:
    padded = functional.pad(x, edges, value=-torch.inf)
    num_samples, num_channels = x.shape[:2]
    columns = functional.unfold(
        padded.flatten(0, 1).unsqueeze(1),
        windows.kernel,
        dilation=windows.dilation,
        stride=windows.stride,
    )
    return columns.reshape(num_samples, num_channels, *columns.shape[1:])


def _folded(parts: Tensor, windows: _Windows, edges: list[int], sides: torch.Size) -> Tensor:
    left, right, top, bottom = edges
    height, width = sides[0] + top + bottom, sides[1] + left + right
    folded = functional.fold(
        parts.flatten(0, 1),
        (height, width),
        windows.kernel,
        dilation=windows.dilation,
        stride=windows.stride,
    )
    plane = folded.reshape(*parts.shape[:2], height, width)
    return plane[:, :, top : top + sides[0], left : left + sides[1]]


def _largest_of_others(upper: Tensor) -> Tensor:
    if upper.shape[2] == 1:
        return torch.full_like(upper, -torch.inf)
    best = upper.topk(2, dim=2)
    first, second = torch.split(best.values, 1, dim=2)
    places = torch.arange(upper.shape[2], device=upper.device).view(-1, 1)
    return torch.where(places == best.indices[:, :, :1], second, first)


def _window_size(size: int | tuple[int, ...], rest: int, flat: bool) -> tuple[int, int]:
    sizes = tuple(size) if isinstance(size, tuple | list) else (size,)
    if flat:
        return rest, sizes[0]
    return (sizes[0], sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])
