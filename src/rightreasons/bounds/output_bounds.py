"""Certified bounds of a model's outputs."""

from __future__ import annotations

from torch import Tensor, nn

from rightreasons.bounds.checked_box import METHODS, checked_box
from rightreasons.bounds.crown import crown_boxes, intersected
from rightreasons.bounds.full_precision import full_precision
from rightreasons.bounds.graph import network_of
from rightreasons.bounds.overflow import honest_ends
from rightreasons.setting import checked_choice, checked_flag
from rightreasons.types import Interval

__all__ = ["output_bounds"]


def output_bounds(
    model: nn.Module,
    lower: Tensor,
    upper: Tensor,
    *,
    method: str = "ibp",
    outward: bool = True,
) -> Interval:
    """What a model can give for any input between two ends.

    The model is bounded as at test time, whatever mode it is in, and left as it is. Gradients of
    the bounds reach its weights.

    Args:
        model: Any that `torch.fx` can trace into layers that have rules.
        lower: The lower ends of the inputs, ``(N, *S)``.
        upper: The upper ends.
        method: ``"ibp"``, interval bound propagation, or ``"crown"``, which is slower and never
            looser.
        outward: Whether the bounds must hold for what the machine computes in this precision,
            not only for real numbers.

    Returns:
        The ends of the outputs, ``(N, K)``; infinite where the bounds overflowed.

    Raises:
        UnsupportedLayerError: For layers without rules, all at once with their paths.

    Example:
        >>> import torch
        >>> model = nn.Linear(2, 1, bias=False)
        >>> _ = nn.init.constant_(model.weight, 0.5)
        >>> bounds = output_bounds(model, torch.zeros(1, 2), torch.ones(1, 2), outward=False)
        >>> bounds.lower.tolist(), bounds.upper.tolist()
        ([[0.0]], [[1.0]])

    References:
        gowal2018effectiveness, zhang2018efficient
    """
    box = checked_box(lower, upper, outward=checked_flag("outward", outward))
    chosen = checked_choice("method", method, METHODS)
    with full_precision(box.center):
        network = network_of(model, box.center)
        boxes = network.forward(box, outward=outward)
        ends = honest_ends(boxes[-1].ends(outward=outward), boxes)
        if chosen == "crown":
            boxes = crown_boxes(network, box, outward=outward)
            tight = honest_ends(boxes[-1].ends(outward=outward), boxes)
            ends = intersected(ends, tight)
    return Interval(*ends)
