"""Layers that only move elements: reshaping, permuting, padding with zeros, slicing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from rightreasons.bounds.linear import LinearMap, Shapes, linear_map

__all__ = ["Pad", "Permute", "Reshape", "Select"]


@dataclass(frozen=True)
class Reshape(LinearMap):
    """A new shape for the same numbers, sample by sample: flatten, view, squeeze and so on.

    Args:
        shape: The shape of a sample, without the batch.
    """

    shape: tuple[int, ...]

    @override
    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        del absolute, bias
        return inputs[0].reshape(inputs[0].shape[0], *self.shape)

    @override
    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        del absolute
        return (gradient.reshape(gradient.shape[0], *shapes[0]),)


@dataclass(frozen=True)
class Permute(LinearMap):
    """The axes in another order; the batch stays first.

    Args:
        axes: The new order of the axes, as `torch.permute` takes it.
    """

    axes: tuple[int, ...]

    @override
    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        del absolute, bias
        return inputs[0].permute(self.axes)

    @override
    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        del shapes, absolute
        back = sorted(range(len(self.axes)), key=self.axes.__getitem__)
        return (gradient.permute(back),)


@dataclass(frozen=True)
class Pad(LinearMap):
    """Zeros around the last axes.

    Args:
        amounts: Zeros on each side, as `torch.nn.functional.pad` takes them; negative ones crop.
    """

    amounts: tuple[int, ...]

    @override
    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        del absolute, bias
        return functional.pad(inputs[0], self.amounts)

    @override
    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        del shapes, absolute
        return (functional.pad(gradient, [-amount for amount in self.amounts]),)


@dataclass(frozen=True)
class Select(LinearMap):
    """Some elements of a sample, each at most once: slices and single indices.

    Args:
        index: Slices and integers, as between brackets, without the batch.
    """

    index: tuple[slice | int, ...]

    @override
    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        del absolute, bias
        return inputs[0][(slice(None), *self.index)]

    @override
    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        del absolute
        indices = torch.arange(_product(shapes[0]), device=gradient.device).reshape(shapes[0])
        chosen = indices[self.index].flatten()
        empty = gradient.new_zeros(gradient.shape[0], _product(shapes[0]))
        filled = empty.index_copy(1, chosen, gradient.flatten(1))
        return (filled.reshape(gradient.shape[0], *shapes[0]),)


@linear_map.register(nn.ZeroPad1d)
@linear_map.register(nn.ZeroPad2d)
@linear_map.register(nn.ZeroPad3d)
def _(layer: nn.ZeroPad1d | nn.ZeroPad2d | nn.ZeroPad3d) -> LinearMap:
    return Pad(tuple(layer.padding))


def _product(shape: tuple[int, ...]) -> int:
    return torch.Size(shape).numel()
