"""Bounds of layer and group normalisation, whose statistics depend on the sample."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rightreasons.bounds.box import (
    FUNCTION_ERROR,
    Box,
    precision,
    product,
    sum_error,
    underflow_error,
)
from rightreasons.bounds.combination import Elementwise
from rightreasons.bounds.linear import map_backward, map_forward
from rightreasons.bounds.rule import backward_bounds, forward_bounds, refusal

__all__: list[str] = []


class _Normalisation(NamedTuple):
    r"""Groups of elements, each normalised by its own mean and deviation.

    Args:
        value: The box of :math:`(v - \mu) / \sigma`, ``(N, G, n)``.
        scale: The box of :math:`1 / \sigma`, ``(N, G, 1)``.
        magnitude: The largest :math:`|v|` plus its mean over the group, ``(N, G, n)``. Rounding
            errors are relative to it.
    """

    value: Box
    scale: Box
    magnitude: Tensor


def _normalise(box: Box, epsilon: float, *, outward: bool) -> _Normalisation:
    r"""Bound the mean, the deviation and their quotient, each by itself.

    The deviation from the mean is linear. The variance lies between the means of the smallest and
    of the largest squares. No quotient can exceed :math:`\sqrt{n - 1}`.
    """
    count = box.center.shape[-1]
    magnitude = box.magnitude + box.magnitude.mean(dim=-1, keepdim=True)
    error = sum_error(count, box.center) if outward else 0.0
    deviation = _centre(box, error * magnitude if outward else None)
    low, high = deviation.ends(outward=outward)
    smallest_square = (low.clamp(min=0) - high.clamp(max=0)).square()
    largest_square = torch.maximum(-low, high).square()
    variance_error = 2 * error * magnitude.square().mean(dim=-1, keepdim=True)
    least = (smallest_square.mean(dim=-1, keepdim=True) - variance_error).clamp(min=0) + epsilon
    most = largest_square.mean(dim=-1, keepdim=True) + variance_error + epsilon
    relative = FUNCTION_ERROR * precision(box.center) if outward else 0.0
    scale = Box.between(
        most.rsqrt() * (1 - relative), least.rsqrt() * (1 + relative), outward=outward
    )
    value = product(deviation, scale, outward=outward)
    # A rounded variance may be too small by `variance_error`, which lifts the ceiling.
    ceiling = ((count - 1) * (variance_error / epsilon).clamp(min=1)).sqrt() * (1 + relative)
    ceiling = ceiling + error * magnitude / math.sqrt(epsilon)
    low, high = value.ends(outward=outward)
    low, high = torch.maximum(low, -ceiling), torch.minimum(high, ceiling)
    return _Normalisation(Box.between(low, high, outward=outward), scale, magnitude)


def _centre(box: Box, slack: Tensor | None) -> Box:
    """The box of deviations from the mean. The map is symmetric and serves the gradient, too."""
    count = box.center.shape[-1]
    center = box.center - box.center.mean(dim=-1, keepdim=True)
    full = box.full_radius()
    # 1 - 1/n of an element's own radius, and 1/n of every other's.
    radius = (1 - 2 / count) * full + full.mean(dim=-1, keepdim=True)
    radius = radius.clamp(min=0)
    if slack is None:
        return Box(center, radius)
    return Box(center, radius * (1 + 8 * precision(center)) + 2 * slack + underflow_error(center))


def _input_gradient(gradient: Box, normalised: _Normalisation, *, outward: bool) -> Box:
    r"""The input's gradient: :math:`\frac1\sigma (g - \bar g - \hat v \, \overline{g \hat v})`."""
    value, scale, magnitude = normalised
    aligned = product(gradient, value, outward=outward)
    mean_radius = aligned.full_radius().mean(dim=-1, keepdim=True)
    mean = Box(aligned.center.mean(dim=-1, keepdim=True), mean_radius)
    along = product(value, mean, outward=outward)
    centred = _centre(gradient, None)
    rest = Box(centred.center - along.center, centred.radius + along.full_radius())
    if not outward:
        return product(rest, scale, outward=False)
    error = 4 * sum_error(value.center.shape[-1], value.center)
    size, steepest = gradient.magnitude, scale.magnitude
    size = size + size.mean(dim=-1, keepdim=True)
    # PyTorch forms these sums from numbers that are not centred, with larger rounding errors.
    aligned_size = (size * magnitude).mean(dim=-1, keepdim=True) * steepest
    slack = error * (size + value.magnitude * aligned_size + steepest * aligned_size * magnitude)
    slack = slack + error * (aligned.magnitude.mean(dim=-1, keepdim=True) * value.magnitude)
    widened = rest.radius * (1 + error) + slack + underflow_error(slack)
    return product(Box(rest.center, widened), scale, outward=True)


@forward_bounds.register(nn.LayerNorm)
@forward_bounds.register(nn.GroupNorm)
def _(layer: nn.LayerNorm | nn.GroupNorm, *boxes: Box, outward: bool) -> Box:
    shape = boxes[0].center.shape
    grouped = boxes[0].reshape(_groups(layer, shape))
    normalised = _normalise(grouped, layer.eps, outward=outward).value.reshape(shape)
    return map_forward(_affine(layer, len(shape)), normalised, outward=outward)


@backward_bounds.register(nn.LayerNorm)
@backward_bounds.register(nn.GroupNorm)
def _(
    layer: nn.LayerNorm | nn.GroupNorm,
    gradient: Box,
    inputs: tuple[Box, ...],
    output: Box,
    *,
    outward: bool,
) -> tuple[Box, ...]:
    del output
    shape = inputs[0].center.shape
    groups = _groups(layer, shape)
    normalised = _normalise(inputs[0].reshape(groups), layer.eps, outward=outward)
    (scaled,) = map_backward(_affine(layer, len(shape)), gradient, inputs, outward=outward)
    pulled = _input_gradient(scaled.reshape(groups), normalised, outward=outward)
    return (pulled.reshape(shape),)


@refusal.register(nn.LayerNorm)
@refusal.register(nn.GroupNorm)
def _(layer: nn.LayerNorm | nn.GroupNorm) -> str | None:
    return None if layer.eps > 0 else "eps must be above 0"


def _groups(layer: nn.LayerNorm | nn.GroupNorm, shape: torch.Size) -> tuple[int, ...]:
    if isinstance(layer, nn.GroupNorm):
        return shape[0], layer.num_groups, -1
    return shape[0], -1, math.prod(layer.normalized_shape)


def _affine(layer: nn.LayerNorm | nn.GroupNorm, num_axes: int) -> Elementwise:
    if layer.weight is None:
        return Elementwise()
    axes = (-1, *[1] * (num_axes - 2)) if isinstance(layer, nn.GroupNorm) else layer.weight.shape
    weight = layer.weight.view(axes)
    return Elementwise(weight, 0.0 if layer.bias is None else layer.bias.view(axes))
