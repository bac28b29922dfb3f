"""Bounds of the product of two activations: gates."""

from __future__ import annotations

from dataclasses import dataclass

from rightreasons.bounds.box import Box
from rightreasons.bounds.product import product
from rightreasons.bounds.rule import backward_bounds, forward_bounds

__all__ = ["Multiply"]


@dataclass(frozen=True)
class Multiply:
    """Two activations of one shape, multiplied number by number."""


@forward_bounds.register
def _(layer: Multiply, *boxes: Box, outward: bool) -> Box:
    del layer
    return product(*boxes, outward=outward)


@backward_bounds.register
def _(
    layer: Multiply, gradient: Box, inputs: tuple[Box, ...], output: Box, *, outward: bool
) -> tuple[Box, ...]:
    del layer, output
    first, second = inputs
    return product(gradient, second, outward=outward), product(gradient, first, outward=outward)
