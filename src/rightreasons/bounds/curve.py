"""Bounds of smooth activations, from the extreme points of a curve and of its slope."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, singledispatch
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from rightreasons.bounds.box import (
    FUNCTION_ERROR,
    Box,
    precision,
    product_ends,
    round_outward,
    underflow_error,
)
from rightreasons.errors import UnsupportedLayerError

__all__ = [
    "Curve",
    "curve",
    "curve_backward",
    "curve_forward",
    "jump_height",
    "jumps",
    "slope_ends",
]

Turns = tuple[tuple[float, float], ...]
"""Turning points: pairs of an argument and the function's value there."""


class Curve(NamedTuple):
    """A function of one number, with all that bounds need.

    Between its turning points a function is monotone. Over an interval its extremes therefore lie
    at the ends or at a turning point inside.

    Args:
        function: Its values.
        slope: Its derivative; at a kink the value that autograd gives.
        turns: Arguments at which ``function`` turns, each with the value there. A jump takes two
            entries with one argument: the values on both of its sides.
        slope_turns: The same for ``slope``.
        increasing: Whether the function never falls.
        scale: Magnitude of the numbers that are rounded on the way; 0 for straight pieces.
        slope_scale: The same for ``slope``, where it is larger; None is ``scale``.
    """

    function: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    turns: Turns = ()
    slope_turns: Turns = ()
    increasing: bool = True
    scale: float = 1.0
    slope_scale: float | None = None


@singledispatch
def curve(layer: object) -> Curve:
    """The curve of an activation layer; register a function here to bound a new activation.

    Example:
        >>> curve(nn.Tanh()).slope_turns
        ((0.0, 1.0),)
    """
    raise UnsupportedLayerError(
        f"Expected an activation with a known curve, but got {type(layer).__name__}. Add it with "
        "`@curve.register`."
    )


@curve.register
def _(layer: nn.LeakyReLU) -> Curve:
    incline = float(layer.negative_slope)

    def slope(x: Tensor) -> Tensor:
        return torch.where(x > 0, 1.0, torch.full_like(x, incline))

    function = partial(functional.leaky_relu, negative_slope=incline)
    return Curve(function, slope, ((0.0, 0.0),), (), incline >= 0, 0.0)


@curve.register(nn.Hardtanh)
@curve.register(nn.ReLU6)
def _(layer: nn.Hardtanh) -> Curve:
    low, high = float(layer.min_val), float(layer.max_val)

    def slope(x: Tensor) -> Tensor:
        return ((x > low) & (x < high)).to(x.dtype)

    function = partial(functional.hardtanh, min_val=low, max_val=high)
    return Curve(function, slope, (), (((low + high) / 2, 1.0),), True, 0.0)


@curve.register(nn.ELU)
def _(layer: nn.ELU) -> Curve:
    alpha = float(layer.alpha)

    def slope(x: Tensor) -> Tensor:
        return torch.where(x > 0, 1.0, alpha * x.clamp(max=0).exp())

    function = partial(functional.elu, alpha=alpha)
    return Curve(function, slope, ((0.0, 0.0),), ((0.0, alpha),), alpha >= 0, 1 + abs(alpha))


@curve.register
def _(layer: nn.Softplus) -> Curve:
    beta, threshold = float(layer.beta), float(layer.threshold)

    def slope(x: Tensor) -> Tensor:
        return torch.where(beta * x > threshold, 1.0, torch.sigmoid(beta * x))

    function = partial(functional.softplus, beta=beta, threshold=threshold)
    # PyTorch switches to the identity here, and the value jumps.
    switch = threshold / beta
    smooth = max(threshold, 0.0) + math.log1p(math.exp(-abs(threshold)))
    return Curve(function, slope, ((switch, switch), (switch, smooth / beta)), (), False)


@curve.register
def _(layer: nn.Sigmoid) -> Curve:
    del layer

    def slope(x: Tensor) -> Tensor:
        value = torch.sigmoid(x)
        return value * (1 - value)

    return Curve(torch.sigmoid, slope, (), ((0.0, 0.25),))


@curve.register
def _(layer: nn.Tanh) -> Curve:
    del layer

    def slope(x: Tensor) -> Tensor:
        return 1 - torch.tanh(x).square()

    return Curve(torch.tanh, slope, (), ((0.0, 1.0),))


@curve.register
def _(layer: nn.SiLU) -> Curve:
    del layer

    def slope(x: Tensor) -> Tensor:
        gate = torch.sigmoid(x)
        return gate * (1 + x * (1 - gate))

    lowest = ((-1.2784645427610738, -0.2784645427610738),)
    steepest = (
        (-2.3993572805154677, -0.09983932012886692),
        (2.3993572805154677, 1.099839320128867),
    )
    # The slope multiplies 1 - gate, a rounded difference, with numbers up to 37.
    return Curve(functional.silu, slope, lowest, steepest, False, slope_scale=8.0)


@curve.register
def _(layer: nn.GELU) -> Curve:
    if layer.approximate == "tanh":
        lowest = ((-0.7524614220710163, -0.17004075057125405),)
        steepest = (
            (-1.4185040087908284, -0.12899306865877177),
            (1.4185040087908284, 1.1289930686587718),
        )
        function = partial(functional.gelu, approximate="tanh")
        # The slope multiplies 1 - gate², a rounded difference, with numbers up to 21.
        return Curve(function, _gelu_tanh_slope, lowest, steepest, False, slope_scale=8.0)
    lowest = ((-0.7517915246935645, -0.16997120747990366),)
    steepest = ((-math.sqrt(2), -0.12890414518515479), (math.sqrt(2), 1.1289041451851548))
    return Curve(functional.gelu, _gelu_slope, lowest, steepest, False)


def _gelu_slope(x: Tensor) -> Tensor:
    below = 0.5 * (1 + torch.erf(x * math.sqrt(0.5)))
    density = torch.exp(-0.5 * x.square()) / math.sqrt(2 * math.pi)
    return below + x * density


def _gelu_tanh_slope(x: Tensor) -> Tensor:
    rate, cubic = math.sqrt(2 / math.pi), 0.044715
    gate = torch.tanh(rate * (x + cubic * x**3))
    steepness = (1 - gate.square()) * rate * (1 + 3 * cubic * x.square())
    return 0.5 * (1 + gate) + 0.5 * x * steepness


def slope_ends(activation: Curve, box: Box, *, outward: bool) -> tuple[Tensor, Tensor]:
    """The smallest and the largest slope of a curve over a box."""
    lower, upper = box.ends(outward=outward)
    first, second = activation.slope(lower), activation.slope(upper)
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    low, high = _include_turns(low, high, activation.slope_turns, lower, upper, outward=outward)
    if not outward:
        return low, high
    scale = activation.scale if activation.slope_scale is None else activation.slope_scale
    return _round_function(low, high, scale)


def curve_forward(activation: Curve, box: Box, *, outward: bool) -> Box:
    """The box of a curve's values over a box."""
    lower, upper = box.ends(outward=outward)
    low, high = activation.function(lower), activation.function(upper)
    if not activation.increasing:
        low, high = torch.minimum(low, high), torch.maximum(low, high)
        low, high = _include_turns(low, high, activation.turns, lower, upper, outward=outward)
    return Box.between(
        *(_round_function(low, high, activation.scale) if outward else (low, high)), outward=outward
    )


def curve_backward(activation: Curve, gradient: Box, box: Box, *, outward: bool) -> Box:
    """The box of gradients times the slopes of a curve over a box."""
    slopes = slope_ends(activation, box, outward=outward)
    if gradient.is_exact and not outward:
        slope = Box.between(*slopes)
        return Box(gradient.center * slope.center, gradient.center.abs() * slope.radius)
    ends = product_ends(gradient.ends(outward=outward), slopes)
    return Box.between(*(round_outward(*ends) if outward else ends), outward=outward)


def jump_height(activation: Curve, box: Box, *, outward: bool) -> Tensor:
    """The total height of a curve's jumps inside a box, ``(N, *S)``.

    A curve departs from its slopes by as much.
    """
    lower, upper = box.ends(outward=outward)
    height = torch.zeros_like(lower)
    for argument, jump in jumps(activation).items():
        height = height + _is_inside(argument, lower, upper, outward=outward) * jump
    return height


def jumps(activation: Curve) -> dict[float, float]:
    """The arguments at which a curve jumps, with the heights of the jumps.

    Example:
        >>> jumps(curve(nn.Tanh())), list(jumps(curve(nn.Softplus(threshold=1.0))))
        ({}, [1.0])
    """
    values: dict[float, list[float]] = {}
    for argument, value in activation.turns:
        values.setdefault(argument, []).append(value)
    return {place: max(sides) - min(sides) for place, sides in values.items() if len(sides) > 1}


def _include_turns(
    low: Tensor, high: Tensor, turns: Turns, lower: Tensor, upper: Tensor, *, outward: bool
) -> tuple[Tensor, Tensor]:
    for argument, value in turns:
        inside = _is_inside(argument, lower, upper, outward=outward)
        low = torch.where(inside, low.clamp(max=value), low)
        high = torch.where(inside, high.clamp(min=value), high)
    return low, high


def _is_inside(argument: float, lower: Tensor, upper: Tensor, *, outward: bool) -> Tensor:
    """Whether an argument lies between two ends; ``outward`` leaves room for its rounding."""
    # The model compares rounded numbers, so that it may switch a little earlier or later.
    room = 4 * precision(lower) * abs(argument) + underflow_error(lower) if outward else 0.0
    return (lower <= argument + room) & (upper >= argument - room)


def _round_function(low: Tensor, high: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    error = FUNCTION_ERROR * precision(low)
    return low - error * (low.abs() + scale), high + error * (high.abs() + scale)
