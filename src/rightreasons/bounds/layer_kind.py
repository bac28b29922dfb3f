"""All layer kinds that have rules; importing this file registers them."""

from __future__ import annotations

from rightreasons.bounds import (
    batch_norm,
    combination,
    convolution,
    layer_norm,
    linear,
    pooling,
    relu,
    shape,
)
from rightreasons.bounds.curve import curve
from rightreasons.bounds.linear import linear_map
from rightreasons.bounds.rule import forward_bounds

__all__ = ["KIND_FILES", "layer_kinds"]

KIND_FILES = (
    *(linear, convolution, batch_norm, pooling, shape, combination),
    *(relu, layer_norm),
)
"""The files of the layer kinds."""


def layer_kinds() -> list[str]:
    """The names of all layers that can be bounded, those of a user's own rules too.

    Example:
        >>> {"Conv2d", "GroupNorm", "Linear", "ReLU"} <= set(layer_kinds())
        True
    """
    kinds = {*forward_bounds.registry, *linear_map.registry, *curve.registry} - {object}
    return sorted(kind.__name__ for kind in kinds)
