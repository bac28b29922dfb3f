"""Boxes in, boxes out: bounds for use inside a loss, without checks and without rounding."""

from __future__ import annotations

from torch import Tensor, nn

from rightreasons.bounds.box import Box
from rightreasons.bounds.checked_box import METHODS
from rightreasons.bounds.crown import crown_boxes
from rightreasons.bounds.full_precision import full_precision
from rightreasons.bounds.graph import network_of
from rightreasons.bounds.network import Network
from rightreasons.bounds.target_gradient import target_gradient
from rightreasons.setting import checked_choice
from rightreasons.target import Target

__all__ = ["gradient_box", "output_box"]


def output_box(model: nn.Module, box: Box, *, method: str = "ibp", outward: bool = False) -> Box:
    """The box of a model's outputs over a box of inputs, for use inside a loss.

    Nothing is checked. See `output_bounds` for a certificate.

    Args:
        model: As for `network_of`.
        box: ``(N, *S)``.
        method: As for `output_bounds`.
        outward: Whether to hold despite rounding.

    Example:
        >>> import torch
        >>> box = Box(torch.zeros(1, 2), torch.ones(1, 2))
        >>> output_box(nn.Flatten(), box).radius
        tensor([[1., 1.]])
    """
    with full_precision(box.center):
        return _full(_boxes(network_of(model, box.center), box, method, outward=outward)[-1])


def gradient_box(
    model: nn.Module,
    box: Box,
    y: Tensor,
    *,
    target: Target | str,
    method: str = "ibp",
    outward: bool = False,
) -> tuple[Box, Box]:
    """The boxes of the logits and of the input gradient, for use inside a loss.

    Nothing is checked. See `input_gradient_bounds` for a certificate.

    Args:
        model: As for `network_of`; gives logits ``(N, K)``.
        box: ``(N, *S)``.
        y: Labels ``(N,)``.
        target: What is differentiated.
        method: As for `output_bounds`; ``"crown"`` tightens what is known of the activations,
            while the gradient itself is bounded by intervals.
        outward: Whether to hold despite rounding.

    Returns:
        Logits ``(N, K)``, gradient ``(N, *S)``.
    """
    with full_precision(box.center):
        network = network_of(model, box.center)
        boxes = _boxes(network, box, method, outward=outward)
        start = target_gradient(boxes[-1], y, Target(target), outward=outward)
        gradient = network.backward(boxes, start, outward=outward)[0]
        return _full(boxes[-1]), _full(gradient)


def _boxes(network: Network, box: Box, method: str, *, outward: bool) -> list[Box]:
    if checked_choice("method", method, METHODS) == "crown":
        return crown_boxes(network, box, outward=outward)
    return network.forward(box, outward=outward)


def _full(box: Box) -> Box:
    return Box(box.center, box.full_radius())
