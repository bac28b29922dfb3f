"""Bounds of batch normalisation with the statistics of test time, which is affine."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.bounds.linear import DiagonalMap, Shapes, linear_map
from rightreasons.bounds.rule import refusal

__all__ = ["BatchNormalisation"]

_NUM_ROUNDINGS = 8  # roundings of the factor, the offset, their product and sum


class BatchNormalisation(DiagonalMap):
    r"""The affine view of BatchNorm: a factor :math:`\gamma / \sigma` and an offset per channel.

    The running statistics are used whatever mode the layer is in. They are copied, since a later
    pass in train mode changes them in place.
    """

    def __init__(self, layer: nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d) -> None:
        mean, variance = _copy(layer.running_mean), _copy(layer.running_var)
        deviation = torch.sqrt(variance + layer.eps)
        self.factor = deviation.reciprocal() if layer.weight is None else layer.weight / deviation
        self.shift = -mean * self.factor
        self.bias: Tensor | None = layer.bias

    @override
    def apply(self, *inputs: Tensor, absolute: bool = False, bias: bool = False) -> Tensor:
        x = inputs[0]
        factor = _along_channels(self.factor.abs() if absolute else self.factor, x.ndim - 1)
        offset = self.offset(x.ndim - 1) if bias else None
        return x * factor if offset is None else torch.addcmul(offset, x, factor)

    @override
    def num_terms(self, shapes: Shapes) -> int:
        del shapes
        return _NUM_ROUNDINGS

    @override
    def offset(self, num_axes: int) -> Tensor | None:
        offset = self.shift if self.bias is None else self.bias + self.shift
        return _along_channels(offset, num_axes)

    @override
    def offset_magnitude(self, num_axes: int) -> Tensor | None:
        magnitude = self.shift.abs()
        if self.bias is not None:
            magnitude = magnitude + self.bias.abs()
        return _along_channels(magnitude, num_axes)


def _copy(statistic: Tensor | None) -> Tensor:
    return torch.zeros(0) if statistic is None else statistic.clone()


def _along_channels(values: Tensor, num_axes: int) -> Tensor:
    return values.view(-1, *[1] * (num_axes - 1))


def _statistics_refusal(layer: nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d) -> str | None:
    if layer.running_mean is None or layer.running_var is None:
        return "it has no running statistics, so that samples of a batch depend on each other"
    return None


for _kind in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
    linear_map.register(_kind, BatchNormalisation)
    refusal.register(_kind, _statistics_refusal)
