"""How far the own class stays above every other over a box of inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rightreasons.bounds.box import Box
from rightreasons.bounds.checked_box import METHODS, checked_box, checked_labels
from rightreasons.bounds.crown import crown_boxes, row_minima
from rightreasons.bounds.full_precision import full_precision
from rightreasons.bounds.graph import network_of
from rightreasons.bounds.network import Network, Node
from rightreasons.bounds.overflow import honest_ends
from rightreasons.bounds.rounding import precision, smallest, sum_error
from rightreasons.bounds.rule import ruled_kind
from rightreasons.setting import checked_choice, checked_flag

__all__ = ["interval_margins", "lowest_margins", "margin_bounds"]

_MOST_PAIRS = 2**20  # numbers in a table of differences of weights


def margin_bounds(
    model: nn.Module,
    lower: Tensor,
    upper: Tensor,
    y: Tensor,
    *,
    method: str = "ibp",
    outward: bool = True,
) -> Tensor:
    r"""For each class a lower bound of :math:`f_y(x) - f_k(x)` over the inputs between two ends.

    Where all but the own class' are above 0, the prediction is ``y`` whatever the input. Merging
    the last layer into the difference makes this tighter than bounds of the logits. Negated, the
    margins are worst-case logits: their cross-entropy is above that of every input in the box.

    Args:
        model: As for `output_bounds`; gives logits ``(N, K)``.
        lower: The lower ends of the inputs, ``(N, *S)``.
        upper: The upper ends.
        y: Labels ``(N,)``.
        method: As for `output_bounds`.
        outward: As for `output_bounds`.

    Returns:
        ``(N, K)``; exactly 0 for the own class, minus infinity where the bounds overflowed.

    Example:
        >>> x, y = torch.zeros(1, 2), torch.tensor([1])
        >>> margin_bounds(nn.Identity(), x, x + 1, y, outward=False)
        tensor([[-1.,  0.]])
    """
    box = checked_box(lower, upper, outward=checked_flag("outward", outward))
    with full_precision(box.center):
        network = network_of(model, box.center)
        boxes = network.forward(box, outward=outward)
        y = checked_labels(y, boxes[-1].center)
        margins = _honest(interval_margins(network, boxes, y, outward=outward), boxes, y)
        if checked_choice("method", method, METHODS) == "crown":
            boxes = crown_boxes(network, box, outward=outward)
            rows = _differences(boxes[-1].center, y)
            tight = row_minima(network, boxes, len(boxes) - 1, rows, outward=outward)
            for found in (interval_margins(network, boxes, y, outward=outward), tight):
                margins = torch.maximum(margins, _honest(found, boxes, y))
    return margins


def lowest_margins(
    model: nn.Module, box: Box, y: Tensor, *, method: str = "ibp", outward: bool = False
) -> Tensor:
    """The margins of `margin_bounds` for use inside a loss: nothing is checked.

    ``"crown"`` tightens what is known of the activations, and merges the last layer with that.
    """
    with full_precision(box.center):
        network = network_of(model, box.center)
        if checked_choice("method", method, METHODS) == "crown":
            boxes = crown_boxes(network, box, outward=outward)
        else:
            boxes = network.forward(box, outward=outward)
        return interval_margins(network, boxes, y, outward=outward)


def interval_margins(network: Network, boxes: list[Box], y: Tensor, *, outward: bool) -> Tensor:
    r"""Lower bounds of :math:`f_y - f_k`, from boxes of all nodes; 0 for the own class."""
    last = network.nodes[-1] if network.nodes else Node("", None, ())
    if isinstance(last.layer, nn.Linear) and ruled_kind(type(last.layer)) is nn.Linear:
        return _merged(last.layer, boxes[last.inputs[0]], y, outward=outward)
    lower, upper = boxes[-1].ends(outward=outward)
    margins = lower.gather(1, y[:, None]) - upper
    if outward:
        margins = margins - (2 * precision(margins) * margins.abs() + smallest(margins))
    return margins.scatter(1, y[:, None], 0.0)


def _honest(margins: Tensor, boxes: list[Box], y: Tensor) -> Tensor:
    lowest, _ = honest_ends((margins, margins), boxes)
    return lowest.scatter(1, y[:, None], 0.0)


def _differences(logits: Tensor, y: Tensor) -> Tensor:
    num_classes = logits.shape[1]
    identity = torch.eye(num_classes, dtype=logits.dtype, device=logits.device)
    return identity[y].unsqueeze(1) - identity  # (N, K, K)


def _merged(layer: nn.Linear, hidden: Box, y: Tensor, *, outward: bool) -> Tensor:
    r"""The last layer merged into the difference: :math:`(w_y - w_k) h + b_y - b_k`."""
    center = nn.functional.linear(hidden.center, layer.weight, layer.bias)
    own = y[:, None]
    margins = center.gather(1, own) - center
    if not hidden.is_exact:
        margins = margins - _reach(layer.weight, hidden.radius, y)
    if outward:
        # Each logit is rounded for itself, so that magnitudes count and not differences.
        size = nn.functional.linear(hidden.magnitude, layer.weight.abs())
        size = size if layer.bias is None else size + layer.bias.abs()
        slack = 2 * sum_error(layer.in_features, size) * (size + size.gather(1, own))
        margins = margins - (slack + smallest(slack))
    return margins.scatter(1, own, 0.0)


def _reach(weight: Tensor, radius: Tensor, y: Tensor) -> Tensor:
    r"""For each sample and class :math:`|w_y - w_k| r`."""
    num_classes, width = weight.shape
    if num_classes * num_classes * width <= 2 * _MOST_PAIRS:
        first, second = torch.triu_indices(num_classes, num_classes, 1, device=weight.device)
        pairs = radius @ (weight[first] - weight[second]).abs().T  # (N, K (K - 1) / 2)
        place = torch.zeros(num_classes, num_classes, dtype=torch.long, device=weight.device)
        numbers = torch.arange(len(first), device=weight.device)
        place[first, second] = place[second, first] = numbers
        return pairs.gather(1, place[y])
    reach = radius.new_zeros(len(radius), num_classes)
    for label in torch.unique(y):
        rows = (y == label).nonzero().flatten()
        part = radius[rows] @ (weight[label] - weight).abs().T
        reach = reach.index_copy(0, rows, part)
    return reach
