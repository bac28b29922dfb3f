"""Bounds of convolutions and transposed convolutions, in one to three dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional, grad
from typing_extensions import override

from rightreasons.bounds.linear import LinearMap, Shapes, linear_map
from rightreasons.bounds.rule import refusal
from rightreasons.core.convolutions import convolve_in_parts

__all__ = ["Convolution", "TransposedConvolution"]

_Convolving = (
    nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d
)
_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {
    1: functional.conv1d,
    2: convolve_in_parts,
    3: functional.conv3d,
}
_INPUT_GRADIENTS: dict[int, Callable[..., Tensor]] = {
    1: grad.conv1d_input,
    2: grad.conv2d_input,
    3: grad.conv3d_input,
}
_TRANSPOSED: dict[int, Callable[..., Tensor]] = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}


class _KernelMap(LinearMap):
    """What both directions of a convolution share."""

    def __init__(self, layer: _Convolving) -> None:
        self.weight: Tensor = layer.weight
        self.bias: Tensor | None = layer.bias
        self.dimensions = len(layer.kernel_size)
        self.groups = layer.groups
        self.settings: dict[str, Any] = {
            "stride": layer.stride,
            "dilation": layer.dilation,
            "groups": layer.groups,
        }

    @override
    def num_terms(self, shapes: Shapes) -> int:
        del shapes
        window = math.prod(self.weight.shape[2:])
        # The first axis of the weight counts all channels, the second those of one group.
        return max(self.weight.shape[1], self.weight.shape[0] // self.groups) * window

    @override
    def offset(self, num_axes: int) -> Tensor | None:
        del num_axes
        return None if self.bias is None else self.bias.view(-1, *[1] * self.dimensions)


class Convolution(_KernelMap):
    """The affine view of `nn.Conv1d`, `nn.Conv2d` and `nn.Conv3d` with zero padding."""

    def __init__(self, layer: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> None:
        super().__init__(layer)
        self.edges = _edges(layer)

    @override
    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        weight = self.weight.abs() if absolute else self.weight
        x, padding = inputs[0], self._symmetric()
        if padding is None:
            x = functional.pad(x, self._padding())
        convolve = _CONVOLUTIONS[self.dimensions]
        offset = self.bias if bias else None
        return convolve(x, weight, offset, padding=padding or 0, **self.settings)

    @override
    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        weight = self.weight.abs() if absolute else self.weight
        padding = self._symmetric()
        shape = list(shapes[0])
        # Unequal edges are padded by hand, so that the gradient comes with them and is cropped.
        extra = [0] * self.dimensions if padding is not None else [sum(e) for e in self.edges]
        padded = [shape[0], *(side + more for side, more in zip(shape[1:], extra, strict=True))]
        size = (gradient.shape[0], *padded)
        input_gradient = _INPUT_GRADIENTS[self.dimensions]
        pulled = input_gradient(size, weight, gradient, padding=padding or 0, **self.settings)
        if padding is None:
            for axis, (side, (before, _)) in enumerate(zip(shape[1:], self.edges, strict=True), 2):
                pulled = pulled.narrow(axis, before, side)
        return (pulled,)

    def _symmetric(self) -> tuple[int, ...] | None:
        """The padding of each axis, if both its edges have the same."""
        if any(before != after for before, after in self.edges):
            return None
        return tuple(before for before, _ in self.edges)

    def _padding(self) -> list[int]:
        return [amount for edge in reversed(self.edges) for amount in edge]


class TransposedConvolution(_KernelMap):
    """The affine view of `nn.ConvTranspose1d` to `nn.ConvTranspose3d`."""

    def __init__(self, layer: nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d) -> None:
        super().__init__(layer)
        self.settings["padding"] = layer.padding
        self.output_padding = layer.output_padding

    @override
    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        weight = self.weight.abs() if absolute else self.weight
        spread = _TRANSPOSED[self.dimensions]
        offset = self.bias if bias else None
        extra = self.output_padding
        return spread(inputs[0], weight, offset, output_padding=extra, **self.settings)

    @override
    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        weight = self.weight.abs() if absolute else self.weight
        pulled = _CONVOLUTIONS[self.dimensions](gradient, weight, **self.settings)
        for axis, side in enumerate(shapes[0][1:], 2):
            pulled = pulled.narrow(axis, 0, side)
        return (pulled,)


def _edges(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> list[tuple[int, int]]:
    """The padding before and behind each axis."""
    if layer.padding == "valid":
        return [(0, 0)] * len(layer.kernel_size)
    if layer.padding == "same":
        totals = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    return [(int(amount), int(amount)) for amount in layer.padding]


def _padding_refusal(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> str | None:
    mode = layer.padding_mode
    return None if mode == "zeros" else f"padding_mode={mode!r} is not bounded; use 'zeros'"


for _kind in (nn.Conv1d, nn.Conv2d, nn.Conv3d):
    linear_map.register(_kind, Convolution)
    refusal.register(_kind, _padding_refusal)
linear_map.register(nn.ConvTranspose1d, TransposedConvolution)
linear_map.register(nn.ConvTranspose2d, TransposedConvolution)
linear_map.register(nn.ConvTranspose3d, TransposedConvolution)
