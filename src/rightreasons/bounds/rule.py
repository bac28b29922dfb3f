"""The two rules of a layer kind, chosen by the layer's type; users register their own here."""

from __future__ import annotations

from functools import singledispatch

from torch import nn

from rightreasons.bounds.box import Box
from rightreasons.bounds.curve import curve, curve_backward, curve_forward
from rightreasons.bounds.linear import linear_map, map_backward, map_forward

__all__ = [
    "backward_bounds",
    "forward_bounds",
    "is_curved",
    "layer_kinds",
    "refusal",
    "ruled_kind",
]

_HIGHEST_THRESHOLD = 80  # exp(88.8) is infinite in single precision


@singledispatch
def forward_bounds(layer: object, *boxes: Box, outward: bool) -> Box:
    """The box of a layer's outputs over boxes of its inputs.

    Args:
        layer: The layer; its type chooses the rule. Affine layers need no rule but their
            `linear_map`, layers that work element by element none but their `curve`.
        boxes: One for each input, ``(N, *S)``.
        outward: Whether the box must hold for rounded numbers, and not for real numbers only.

    Example:
        >>> import torch
        >>> box = Box(torch.tensor([[1.0]]), torch.tensor([[2.0]]))
        >>> forward_bounds(torch.nn.ReLU(), box, outward=False).upper
        tensor([[3.]])
    """
    if is_curved(type(layer)):
        return curve_forward(curve(layer), *boxes, outward=outward)
    return map_forward(linear_map(layer), *boxes, outward=outward)


@singledispatch
def backward_bounds(
    layer: object, gradient: Box, inputs: tuple[Box, ...], output: Box, *, outward: bool
) -> tuple[Box, ...]:
    """The boxes of the gradients at a layer's inputs.

    Args:
        layer: The layer; its type chooses the rule.
        gradient: The box of the gradient at its output.
        inputs: The boxes of its inputs, over which the gradients are bounded.
        output: The box of its output.
        outward: Whether the boxes must hold despite rounding.

    Returns:
        One box for each input.
    """
    del output
    if is_curved(type(layer)):
        return (curve_backward(curve(layer), gradient, inputs[0], outward=outward),)
    return map_backward(linear_map(layer), gradient, inputs, outward=outward)


@singledispatch
def refusal(layer: object) -> str | None:
    """Why a layer of a known kind cannot be bounded with its settings; None if it can."""
    del layer
    return None


@refusal.register
def _(layer: nn.Softplus) -> str | None:
    if layer.beta == 0:
        return "its beta is 0"
    if layer.threshold > _HIGHEST_THRESHOLD:
        return f"its threshold is above {_HIGHEST_THRESHOLD}, where its exponential overflows"
    return None


def layer_kinds() -> list[str]:
    """The names of all layers that can be bounded, those with a user's own rules too.

    Example:
        >>> {"Conv2d", "GroupNorm", "Linear", "ReLU"} <= set(layer_kinds())
        True
    """
    return sorted(kind.__name__ for kind in _ruled_kinds())


def ruled_kind(kind: type) -> type | None:
    """The class whose rules a layer kind has, itself or the nearest it inherits from, if any."""
    known = _ruled_kinds()
    return next((ancestor for ancestor in kind.__mro__ if ancestor in known), None)


def is_curved(kind: type) -> bool:
    """Whether a layer kind is bounded by its curve."""
    ruled = ruled_kind(kind)
    return ruled in curve.registry and ruled not in forward_bounds.registry


def _ruled_kinds() -> set[type]:
    return {*forward_bounds.registry, *linear_map.registry, *curve.registry} - {object}
