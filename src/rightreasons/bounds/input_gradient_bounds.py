"""Certified bounds of a model's input gradients."""

from __future__ import annotations

from torch import Tensor, nn

from rightreasons.bounds.box import Box
from rightreasons.bounds.checked_box import METHODS, checked_box, checked_columns, checked_labels
from rightreasons.bounds.crown import crown_boxes, intersected
from rightreasons.bounds.crown_gradient import gradient_ends
from rightreasons.bounds.full_precision import full_precision
from rightreasons.bounds.graph import network_of
from rightreasons.bounds.network import Network
from rightreasons.bounds.overflow import honest_ends
from rightreasons.bounds.target_gradient import target_gradient
from rightreasons.setting import checked_choice, checked_flag
from rightreasons.target import Target
from rightreasons.types import Interval

__all__ = ["input_gradient_bounds"]


def input_gradient_bounds(
    model: nn.Module,
    lower: Tensor,
    upper: Tensor,
    y: Tensor,
    *,
    target: Target | str = Target.LOGIT,
    method: str = "ibp",
    columns: Tensor | None = None,
    outward: bool = True,
) -> Interval:
    r"""What a sample's input gradient :math:`\nabla_x t(x)` can be, for any input between two ends.

    The derivative of every activation is bounded over the box by the forward pass, and the chain
    rule is followed backward with intervals. At width zero this is the gradient itself.

    Args:
        model: As for `output_bounds`; gives logits ``(N, K)``.
        lower: The lower ends of the inputs, ``(N, *S)``.
        upper: The upper ends.
        y: Labels ``(N,)``.
        target: What is differentiated.
        method: As for `output_bounds`. ``"crown"`` relaxes the backward pass as well, with a row
            for every feature that is asked for.
        columns: Which of the flattened features of a sample to bound; None is all. With them
            ``"crown"`` costs less.
        outward: As for `output_bounds`.

    Returns:
        Shaped as the input, or ``(N, len(columns))``; infinite where the bounds overflowed.

    Example:
        >>> import torch
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> x, y = torch.rand(5, 3), torch.zeros(5, dtype=torch.long)
        >>> bounds = input_gradient_bounds(model, x - 0.1, x + 0.1, y, target="loss")
        >>> bounds.lower.shape, bool((bounds.lower <= bounds.upper).all())
        (torch.Size([5, 3]), True)

    References:
        wicker2023robust, ghitu2025model
    """
    target = Target(target)
    box = checked_box(lower, upper, outward=checked_flag("outward", outward))
    chosen = checked_columns(columns, box.center[0].numel())
    tightens = checked_choice("method", method, METHODS) == "crown"
    with full_precision(box.center):
        network = network_of(model, box.center)
        boxes = network.forward(box, outward=outward)
        y = checked_labels(y, boxes[-1].center)
        ends, _ = _interval_ends(network, boxes, y, target, chosen, outward=outward)
        if tightens:
            boxes = crown_boxes(network, box, outward=outward)
            tighter, gradients = _interval_ends(network, boxes, y, target, chosen, outward=outward)
            ends = intersected(ends, tighter)
            lines = gradient_ends(network, boxes, gradients, chosen, outward=outward)
            ends = intersected(ends, honest_ends(lines, [*boxes, *gradients]))
    if columns is None:
        ends = ends[0].reshape(lower.shape), ends[1].reshape(lower.shape)
    return Interval(*ends)


def _interval_ends(
    network: Network,
    boxes: list[Box],
    y: Tensor,
    target: Target,
    columns: Tensor | None,
    *,
    outward: bool,
) -> tuple[tuple[Tensor, Tensor], list[Box]]:
    start = target_gradient(boxes[-1], y, target, outward=outward)
    gradients = network.backward(boxes, start, outward=outward)
    ends = honest_ends(gradients[0].ends(outward=outward), [*boxes, *gradients])
    lower, upper = (end.flatten(1) for end in ends)
    if columns is not None:
        lower, upper = lower.index_select(1, columns), upper.index_select(1, columns)
    return (lower, upper), gradients
