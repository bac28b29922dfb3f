"""Bounds of average pooling and max pooling.

A line is pooled as a plane of height 1, so that each rule is written once.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from rightreasons.bounds.box import Box, sum_error, underflow_error
from rightreasons.bounds.linear import LinearMap, Shapes, linear_map
from rightreasons.bounds.rule import backward_bounds, forward_bounds
from rightreasons.errors import UnsupportedLayerError

__all__ = ["AdaptiveAveragePooling", "AveragePooling"]

_MaxPooling = nn.MaxPool1d | nn.MaxPool2d


class _PlaneAverage(LinearMap):
    """An average over windows of a plane or of a line: all weights have one sign.

    Args:
        is_line: Whether samples are ``(C, L)`` and not ``(C, H, W)``.
        is_negative: Whether the weights are negative, since the divisor is.
    """

    def __init__(self, *, is_line: bool, is_negative: bool = False) -> None:
        self.is_line, self.is_negative = is_line, is_negative

    @abstractmethod
    def average(self, x: Tensor) -> Tensor:
        """The averages of planes ``(N, C, H, W)``."""

    @abstractmethod
    def spread(self, gradient: Tensor, x: Tensor) -> Tensor:
        """The gradient at planes shaped as ``x``, from the gradient at their averages."""

    @override
    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        del bias
        pooled = self.average(inputs[0].unsqueeze(2) if self.is_line else inputs[0])
        pooled = pooled.squeeze(2) if self.is_line else pooled
        return -pooled if absolute and self.is_negative else pooled

    @override
    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        x = gradient.new_zeros(gradient.shape[0], *shapes[0])
        if self.is_line:
            gradient, x = gradient.unsqueeze(2), x.unsqueeze(2)
        pulled = self.spread(gradient, x)
        pulled = pulled.squeeze(2) if self.is_line else pulled
        return (-pulled if absolute and self.is_negative else pulled,)


class AveragePooling(_PlaneAverage):
    """The affine view of `nn.AvgPool1d` and `nn.AvgPool2d`."""

    def __init__(self, layer: nn.AvgPool1d | nn.AvgPool2d) -> None:
        divisor = None if isinstance(layer, nn.AvgPool1d) else layer.divisor_override
        is_line = isinstance(layer, nn.AvgPool1d)
        super().__init__(is_line=is_line, is_negative=divisor is not None and divisor < 0)
        kernel, stride, padding = (
            _plane_size(size, filler, is_line=self.is_line)
            for size, filler in ((layer.kernel_size, 1), (layer.stride, 1), (layer.padding, 0))
        )
        self.window = kernel
        self.settings = (
            *(kernel, stride, padding),
            *(layer.ceil_mode, layer.count_include_pad, divisor),
        )

    @override
    def average(self, x: Tensor) -> Tensor:
        return functional.avg_pool2d(x, *self.settings)

    @override
    def spread(self, gradient: Tensor, x: Tensor) -> Tensor:
        pulled: Tensor = torch.ops.aten.avg_pool2d_backward(gradient, x, *self.settings)
        return pulled

    @override
    def num_terms(self, shapes: Shapes) -> int:
        del shapes
        return math.prod(self.window) + 2


class AdaptiveAveragePooling(_PlaneAverage):
    """The affine view of `nn.AdaptiveAvgPool1d` and `nn.AdaptiveAvgPool2d`."""

    def __init__(self, layer: nn.AdaptiveAvgPool1d | nn.AdaptiveAvgPool2d) -> None:
        super().__init__(is_line=isinstance(layer, nn.AdaptiveAvgPool1d))
        self.size = _plane_size(layer.output_size, 1, is_line=self.is_line)

    @override
    def average(self, x: Tensor) -> Tensor:
        return functional.adaptive_avg_pool2d(x, self.size)

    @override
    def spread(self, gradient: Tensor, x: Tensor) -> Tensor:
        pulled: Tensor = torch.ops.aten._adaptive_avg_pool2d_backward(gradient, x)
        return pulled

    @override
    def num_terms(self, shapes: Shapes) -> int:
        sides = shapes[0][1:] if not self.is_line else (1, *shapes[0][1:])
        pairs = [
            (side, side if size is None else size)
            for side, size in zip(sides, self.size, strict=True)
        ]
        # At most so many elements lie in one window, and so many windows on one element.
        gathered = math.prod(-(-side // size) + 1 for side, size in pairs)
        spread = math.prod(-(-size // side) + 1 for side, size in pairs)
        return max(gathered, spread) + 2


linear_map.register(nn.AvgPool1d, AveragePooling)
linear_map.register(nn.AvgPool2d, AveragePooling)
linear_map.register(nn.AdaptiveAvgPool1d, AdaptiveAveragePooling)
linear_map.register(nn.AdaptiveAvgPool2d, AdaptiveAveragePooling)


@forward_bounds.register(nn.MaxPool1d)
@forward_bounds.register(nn.MaxPool2d)
def _(layer: _MaxPooling, *boxes: Box, outward: bool) -> Box:
    lower, upper = (_max_pool(layer, end) for end in boxes[0].ends(outward=outward))
    _check_windows(layer, boxes[0].center, lower)
    return Box.between(lower, upper, outward=outward)


@backward_bounds.register(nn.MaxPool1d)
@backward_bounds.register(nn.MaxPool2d)
def _(
    layer: _MaxPooling, gradient: Box, inputs: tuple[Box, ...], output: Box, *, outward: bool
) -> tuple[Box, ...]:
    """An element may be its window's largest if it can reach every other's lower end.

    It is the largest for certain if its lower end is above every other's upper end. With a tie both
    remain possible.
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
        # Each window as a column, (N, C, elements of a window, windows).
        lower, upper = (_unfold(end, windows, edges) for end in ends)
        possible = upper >= lower.amax(dim=2, keepdim=True)
        certain = lower > _largest_of_others(upper)
    low, high = low.flatten(2).unsqueeze(2), high.flatten(2).unsqueeze(2)
    # A possible winner gets the window's gradient or nothing, so that 0 lies between its ends.
    low_parts = torch.where(certain, low, low.clamp(max=0) * possible)
    high_parts = torch.where(certain, high, high.clamp(min=0) * possible)
    low_sum, high_sum = (_fold(parts, windows, edges, sides) for parts in (low_parts, high_parts))
    if outward:
        error = sum_error(windows.kernel[0] * windows.kernel[1], low_sum)
        reach = torch.maximum(low_parts.abs(), high_parts.abs())
        slack = error * _fold(reach, windows, edges, sides) + underflow_error(low_sum)
        low_sum, high_sum = low_sum - slack, high_sum + slack
    box = Box.between(low_sum, high_sum, outward=outward)
    return (box.reshape(inputs[0].center.shape),)


class _Windows(NamedTuple):
    """How the windows of a pooling lie on a plane."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @classmethod
    def of(cls, layer: _MaxPooling) -> _Windows:
        is_line = isinstance(layer, nn.MaxPool1d)
        return cls(
            _plane_size(layer.kernel_size, 1, is_line=is_line),
            _plane_size(layer.stride, 1, is_line=is_line),
            _plane_size(layer.padding, 0, is_line=is_line),
            _plane_size(layer.dilation, 1, is_line=is_line),
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


def _check_windows(layer: _MaxPooling, x: Tensor, output: Tensor) -> None:
    """Refuse windows of padding only: PyTorch then writes gradients outside of the tensor."""
    windows = _Windows.of(layer)
    num_axes = 1 if isinstance(layer, nn.MaxPool1d) else 2
    for axis in range(-num_axes, 0):
        for place in range(output.shape[axis]):
            first = place * windows.stride[axis] - windows.padding[axis]
            taps = range(windows.kernel[axis])
            if not any(0 <= first + windows.dilation[axis] * k < x.shape[axis] for k in taps):
                raise UnsupportedLayerError(
                    f"Expected a max pooling whose windows all hold a value, but got {layer} for "
                    f"an input {tuple(x.shape[1:])}, where a window holds padding only. Lower "
                    "`padding` or `dilation`."
                )


def _max_pool(layer: _MaxPooling, x: Tensor) -> Tensor:
    pool = functional.max_pool1d if isinstance(layer, nn.MaxPool1d) else functional.max_pool2d
    return pool(x, layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode)


def _unfold(x: Tensor, windows: _Windows, edges: list[int]) -> Tensor:
    """The elements of each window, ``(N, C, elements, windows)``; padding never wins."""
    padded = functional.pad(x, edges, value=-torch.inf)
    num_samples, num_channels = x.shape[:2]
    columns = functional.unfold(
        padded.flatten(0, 1).unsqueeze(1),
        windows.kernel,
        dilation=windows.dilation,
        stride=windows.stride,
    )
    return columns.reshape(num_samples, num_channels, *columns.shape[1:])


def _fold(parts: Tensor, windows: _Windows, edges: list[int], sides: torch.Size) -> Tensor:
    """For each element of a plane the sum over the windows that contain it."""
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
    indices = torch.arange(upper.shape[2], device=upper.device).view(-1, 1)
    return torch.where(indices == best.indices[:, :, :1], second, first)


def _plane_size(size: Any, filler: int, *, is_line: bool) -> tuple[int, int]:
    """Height and width of a size; ``filler`` is the height for a line."""
    sizes = tuple(size) if isinstance(size, tuple | list) else (size,)
    return (filler, sizes[0]) if is_line else (sizes[0], sizes[-1])
