"""CROWN for gradients: the backward pass relaxed by straight lines as well.

Here a row is a linear function of the gradient at a node. A row begins at the input and is pushed
forward, since the gradient at a node's input depends on the gradient at its output.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rightreasons.bounds.box import Box, precision, sum_error
from rightreasons.bounds.crown import (
    RowSum,
    affine_view,
    chord,
    is_relu,
    join_halves,
    one_hot_chunks,
    unflatten_rows,
)
from rightreasons.bounds.curve import curve, slope_ends
from rightreasons.bounds.linear import LinearMap
from rightreasons.bounds.network import Network, Node
from rightreasons.bounds.relu import relu_slope_ends
from rightreasons.bounds.rule import backward_bounds, is_curved

__all__ = ["gradient_ends"]

_SPARE_TERMS = 8  # roundings that the number of a layer's summands does not count


def gradient_ends(
    network: Network,
    boxes: Sequence[Box],
    gradients: Sequence[Box],
    columns: Tensor | None,
    *,
    outward: bool,
) -> tuple[Tensor, Tensor]:
    r"""Bounds of some features of the input gradient, ``(N, len(columns))``.

    An input feature's gradient is written as a function of the gradients at later and later nodes,
    up to the logits. If an activation's slope lies in :math:`[d, D]`, it maps the gradient ``g`` to
    a value between :math:`d g + (D - d) \min(g, 0)` and :math:`d g + (D - d) \max(g, 0)`. Straight
    lines enclose both over the interval bounds of ``g``.

    Args:
        network: The layers.
        boxes: The boxes of all nodes.
        gradients: Interval bounds of the gradients at all nodes.
        columns: Indices of features of the flattened input; None bounds all.
        outward: Whether the bounds must hold despite rounding.
    """
    like = boxes[0].center
    if columns is None:
        columns = torch.arange(like[0].numel(), device=like.device)
    widest = max(box.center[0].numel() for box in boxes)
    minima = []
    for rows in one_hot_chunks(columns, like, widest):
        both = torch.cat([rows, -rows], dim=1)
        minima.append(_gradient_minima(network, boxes, gradients, both, outward=outward))
    lower, negated_upper = join_halves(minima)
    return lower, -negated_upper


def _gradient_minima(
    network: Network,
    boxes: Sequence[Box],
    gradients: Sequence[Box],
    rows: Tensor,
    *,
    outward: bool,
) -> Tensor:
    """Lower bounds ``(N, R)`` of linear functions of the input gradient."""
    total = RowSum(outward=outward)
    rows_at: dict[int, Tensor] = {0: rows}
    for number, node in enumerate(network.nodes, start=1):
        input_rows = [rows_at.get(source) for source in node.inputs]
        if all(part is None for part in input_rows):
            continue
        inputs = [boxes[source] for source in node.inputs]
        gradient = gradients[number]
        output_rows = _push_rows(node, input_rows, inputs, boxes[number], gradient, total)
        if output_rows is not None:
            rows_at[number] = output_rows
    last = len(network.nodes)
    if last in rows_at:
        total.add(rows_at[last], gradients[last].center, gradients[last].full_radius())
    return total.total()


def _push_rows(
    node: Node,
    rows: Sequence[Tensor | None],
    inputs: list[Box],
    output: Box,
    gradient: Box,
    total: RowSum,
) -> Tensor | None:
    """Rewrite rows of the gradients at a node's inputs as rows of the gradient at its output.

    None if no relaxation is known: then the interval bounds at the inputs go into the sum.
    """
    affine = affine_view(node.layer)
    if affine is not None:
        return _push_rows_through_affine(affine, rows, inputs, gradient, total)
    first = rows[0]
    if first is None or not (is_relu(node.layer) or is_curved(type(node.layer))):
        parts = backward_bounds(node.layer, gradient, tuple(inputs), output, outward=total.outward)
        for part, row in zip(parts, rows, strict=True):
            if row is not None:
                total.add(row, part.center, _rounded_radius(part, outward=total.outward))
        return None
    if is_relu(node.layer):
        flattest, steepest = relu_slope_ends(inputs[0], outward=total.outward)
    else:
        flattest, steepest = slope_ends(curve(node.layer), inputs[0], outward=total.outward)
    low, high = gradient.ends(outward=total.outward)
    slope, offset = chord(low, high, outward=total.outward)
    spread = steepest - flattest
    # The chord lies above max(g, 0); mirrored, it lies below min(g, 0).
    positive, negative = first.clamp(min=0), first.clamp(max=0)
    total.add(positive, -spread * offset, None)
    total.add(negative, spread * offset, None)
    if total.outward:
        steepness = torch.maximum(flattest.abs(), steepest.abs())
        total.add(first, None, 16 * precision(first) * steepness * gradient.magnitude)
    return positive * (flattest + spread * (1 - slope)).unsqueeze(1) + negative * (
        flattest + spread * slope
    ).unsqueeze(1)


def _rounded_radius(part: Box, *, outward: bool) -> Tensor:
    radius = part.full_radius()
    return radius + _SPARE_TERMS * precision(radius) * part.magnitude if outward else radius


def _push_rows_through_affine(
    affine: LinearMap,
    rows: Sequence[Tensor | None],
    inputs: list[Box],
    gradient: Box,
    total: RowSum,
) -> Tensor:
    shapes = [tuple(box.center.shape[1:]) for box in inputs]
    given = [row for row in rows if row is not None]
    batch, count = max(len(row) for row in given), given[0].shape[1]
    filled = [
        given[0].new_zeros(1, count, *shape) if row is None else row
        for row, shape in zip(rows, shapes, strict=True)
    ]
    filled = [row.expand(batch, *row.shape[1:]) for row in filled]
    if total.outward:  # the spare terms cover the sum over all layers that read an input
        sizes = affine.transposed(gradient.magnitude, shapes, absolute=True)
        error = sum_error(affine.num_terms(shapes) + _SPARE_TERMS, gradient.center)
        for row, size in zip(filled, sizes, strict=True):
            total.add(row, None, error * size)
    image = affine.apply(*(row.flatten(0, 1) for row in filled))
    return unflatten_rows(image, (batch, count))
