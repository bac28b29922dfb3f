"""CROWN: bounds by straight lines that are carried back to the input.

Interval bounds forget how the numbers in a layer depend on each other. Here every activation is
put between two straight lines, so that an output is bounded by a linear function of the input,
whose extremes over a box are known exactly. Bounds are never looser than interval bounds, since
both are intersected.

References:
    zhang2018efficient
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rightreasons.bounds.box import Box
from rightreasons.bounds.network import Network, Node
from rightreasons.bounds.relaxation import (
    affine_view,
    band,
    chord,
    is_relu,
    relu_slopes,
)
from rightreasons.bounds.rounding import precision, sum_error
from rightreasons.bounds.row_sum import RowSum, mapped
from rightreasons.bounds.rule import forward_bounds, is_curved

__all__ = ["crown_boxes", "halves", "intersected", "one_hot_chunks", "row_minima"]

_MOST_NUMBERS = 2**24  # in the rows of one chunk


def crown_boxes(network: Network, box: Box, *, outward: bool) -> list[Box]:
    """The boxes of all nodes, tightened before every activation and at the end.

    Rows of activations that are certainly on one side of a ReLU's kink are left out, since the
    ReLU is a line there whatever its bounds.
    """
    boxes = [box]
    untouched = [True]  # only copied from the input
    activated = {source for node in network.nodes if _bends(node) for source in node.inputs}
    for number, node in enumerate(network.nodes, start=1):
        inputs = [boxes[source] for source in node.inputs]
        boxes.append(forward_bounds(node.layer, *inputs, outward=outward))
        affine = affine_view(node.layer)
        from_input = len(node.inputs) == 1 and untouched[node.inputs[0]]
        shapes = [tuple(source.center.shape[1:]) for source in inputs]
        copies = affine is not None and not affine.num_terms(shapes)
        untouched.append(from_input and copies)
        if affine is None or from_input or number not in activated | {len(network.nodes)}:
            continue
        consumers = [other for other in network.nodes if number in other.inputs]
        lower, upper = boxes[number].ends(outward=outward)
        is_open = torch.ones_like(lower, dtype=torch.bool)
        if consumers and all(is_relu(consumer.layer) for consumer in consumers):
            is_open = (lower < 0) & (upper > 0)
        boxes[number] = _tightened(network, boxes, number, is_open, outward=outward)
    return boxes


def row_minima(
    network: Network, boxes: Sequence[Box], number: int, rows: Tensor, *, outward: bool
) -> Tensor:
    """Lower bounds ``(N, R)`` of linear functions of a node's output.

    Args:
        network: The layers.
        boxes: Of the nodes up to this one.
        number: Of the node.
        rows: The functions, ``(N, R, *S)`` or ``(1, R, *S)``.
        outward: Whether to hold despite rounding.
    """
    total = RowSum(outward=outward)
    waiting = {number: rows}
    for current in range(number, 0, -1):
        if current not in waiting:
            continue
        rows = waiting.pop(current)
        node = network.nodes[current - 1]
        parts = _carried(node, rows, [boxes[i] for i in node.inputs], boxes[current], total)
        for source, part in zip(node.inputs, parts, strict=False):
            if source in waiting:
                part = waiting[source] + part
                if outward:
                    total.add(part, None, 2 * precision(part) * boxes[source].magnitude)
            waiting[source] = part
    if 0 in waiting:
        total.add(waiting[0], boxes[0].center, boxes[0].full_radius())
    return total.total()


def _carried(
    node: Node, rows: Tensor, inputs: list[Box], output: Box, total: RowSum
) -> tuple[Tensor, ...]:
    """Rows of a node's output as rows of its inputs; what is constant goes into the sum."""
    affine = affine_view(node.layer)
    if affine is not None:
        shapes = [tuple(box.center.shape[1:]) for box in inputs]
        num_terms = affine.num_terms(shapes)
        offset = affine.offset(output.center.ndim - 1)
        if offset is not None:
            offset = offset.to(rows.dtype).expand_as(output.center)
        slack = None
        if total.outward and num_terms:
            size = affine.apply(*(box.magnitude for box in inputs), absolute=True)
            magnitude = affine.offset_magnitude(output.center.ndim - 1)
            size = size if magnitude is None else size + magnitude
            slack = sum_error(num_terms, size) * size
        total.add(rows, offset, slack)
        pulled = affine.transposed(rows.flatten(0, 1), shapes)
        return tuple(mapped(part, rows.shape[:2]) for part in pulled)
    if is_relu(node.layer):
        lower, upper = inputs[0].ends(outward=total.outward)
        slope, offset = chord(lower, upper, outward=total.outward)
        below, above = rows.clamp(min=0), rows.clamp(max=0)
        total.add(above, offset, None)
        flat = torch.where(slope < 1, relu_slopes(lower, upper), slope)
        carried = below * flat.unsqueeze(1) + above * slope.unsqueeze(1)
        if total.outward:
            total.add(carried, None, 2 * precision(rows) * inputs[0].magnitude)
        return (carried,)
    if is_curved(type(node.layer)):
        lines = band(node.layer, inputs[0], output, outward=total.outward)  # type: ignore[arg-type]
        total.add(rows, lines.middle, lines.reach)
        carried = rows * lines.slope.unsqueeze(1)
        if total.outward:
            total.add(carried, None, 2 * precision(rows) * inputs[0].magnitude)
        return (carried,)
    total.add(rows, output.center, output.full_radius())
    return ()


def _tightened(
    network: Network, boxes: list[Box], number: int, is_open: Tensor, *, outward: bool
) -> Box:
    box = boxes[number]
    is_open = is_open.flatten(1)
    chosen = is_open.any(dim=0).nonzero().flatten()
    if not len(chosen):
        return box
    widest = max(boxes[k].center[0].numel() for k in range(number + 1))
    minima = []
    for rows in one_hot_chunks(chosen, box.center, widest):
        both = torch.cat([rows, -rows], dim=1)
        minima.append(row_minima(network, boxes, number, both, outward=outward))
    lowest, negated_highest = halves(minima)
    old_lower, old_upper = (end.flatten(1) for end in box.ends(outward=outward))
    lower, upper = intersected(
        (old_lower, old_upper),
        (
            old_lower.index_copy(1, chosen, lowest),
            old_upper.index_copy(1, chosen, -negated_highest),
        ),
    )
    # Only where this sample asks for it, so that no sample depends on the others of its batch.
    lower = torch.where(is_open, lower, old_lower)
    upper = torch.where(is_open, upper, old_upper)
    return Box.between(lower, upper, outward=outward).reshape(box.center.shape)


def intersected(
    outer: tuple[Tensor, Tensor], inner: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """What two pairs of ends have in common; the first where rounding made them miss each other."""
    lower, upper = torch.maximum(outer[0], inner[0]), torch.minimum(outer[1], inner[1])
    fits = lower <= upper
    return torch.where(fits, lower, outer[0]), torch.where(fits, upper, outer[1])


def halves(chunks: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Chunks ``(N, 2 R)`` of two halves each, put together half by half."""
    pairs = [torch.chunk(chunk, 2, dim=1) for chunk in chunks]
    first, second = zip(*pairs, strict=True)
    return torch.cat(first, dim=1), torch.cat(second, dim=1)


def one_hot_chunks(chosen: Tensor, like: Tensor, widest: int) -> Iterator[Tensor]:
    """Rows ``(1, R, *S)`` that pick single features, as many at a time as memory allows."""
    num_rows = max(1, _MOST_NUMBERS // (2 * widest * max(1, len(like))))
    shape = like.shape[1:]
    for places in torch.split(chosen, num_rows):
        rows = like.new_zeros(len(places), shape.numel())
        rows = rows.scatter(1, places[:, None], 1.0)
        yield rows.reshape(1, len(places), *shape)


def _bends(node: Node) -> bool:
    return affine_view(node.layer) is None
