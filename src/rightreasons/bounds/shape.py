"""Layers that only move numbers about: reshaping, permuting, padding with zeros, slicing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rightreasons.bounds.linear import LinearMap, Shapes, linear_map

__all__ = ["Pad", "Permute", "Reshape", "Select"]


@dataclass(frozen=True)
class Reshape(LinearMap):
    """Other axes for the same numbers, sample by sample: flatten, view, squeeze and so on.

    Args:
        shape: Of a sample.
    """

    shape: tuple[int, ...]

    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        """See `LinearMap.apply`."""
        del absolute, bias
        return inputs[0].reshape(inputs[0].shape[0], *self.shape)

    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        """See `LinearMap.transposed`."""
        del absolute
        return (gradient.reshape(gradient.shape[0], *shapes[0]),)


@dataclass(frozen=True)
class Permute(LinearMap):
    """The axes in another order; the batch stays first.

    Args:
        axes: As for `torch.permute`.
    """

    axes: tuple[int, ...]

    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        """See `LinearMap.apply`."""
        del absolute, bias
        return inputs[0].permute(self.axes)

    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        """See `LinearMap.transposed`."""
        del shapes, absolute
        back = sorted(range(len(self.axes)), key=self.axes.__getitem__)
        return (gradient.permute(back),)


@dataclass(frozen=True)
class Pad(LinearMap):
    """Zeros around the last axes.

    Args:
        amounts: As for `torch.nn.functional.pad`; negative ones crop.
    """

    amounts: tuple[int, ...]

    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        """See `LinearMap.apply`."""
        del absolute, bias
        return functional.pad(inputs[0], self.amounts)

    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        """See `LinearMap.transposed`."""
        del shapes, absolute
        return (functional.pad(gradient, [-amount for amount in self.amounts]),)


@dataclass(frozen=True)
class Select(LinearMap):
    """Some of the numbers of a sample, each at most once: slices and single indices.

    Args:
        index: As between brackets, for a sample: slices and integers.
    """

    index: tuple[slice | int, ...]

    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        """See `LinearMap.apply`."""
        del absolute, bias
        return inputs[0][(slice(None), *self.index)]

    def transposed(
        self, gradient: Tensor, shapes: Shapes, *, absolute: bool = False
    ) -> tuple[Tensor, ...]:
        """See `LinearMap.transposed`."""
        del absolute
        places = torch.arange(_product(shapes[0]), device=gradient.device).reshape(shapes[0])
        chosen = places[self.index].flatten()
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
