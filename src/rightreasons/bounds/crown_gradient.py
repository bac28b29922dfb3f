"""CROWN for gradients: the backward pass relaxed by straight lines as well."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rightreasons.bounds.box import Box, precision, sum_error
from rightreasons.bounds.crown import (
    RowSum,
    affine_view,
    chord,
    halves,
    is_relu,
    mapped,
    one_hot_chunks,
)
from rightreasons.bounds.curve import curve, slope_ends
from rightreasons.bounds.linear import LinearMap
from rightreasons.bounds.network import Network, Node
from rightreasons.bounds.relu import relu_slope_ends
from rightreasons.bounds.rule import backward_bounds, is_curved

__all__ = ["gradient_ends"]

_SPARE_TERMS = 8


def gradient_ends(
    network: Network,
    boxes: Sequence[Box],
    gradients: Sequence[Box],
    columns: Tensor | None,
    *,
    outward: bool,
) -> tuple[Tensor, Tensor]:
    r"""Bounds of some features of the input gradient, ``(N, len(columns))``.

    An input feature's gradient is carried forward from the input to the logits. Through an
    activation whose slope lies in :math:`[d, D]` the gradient ``g`` becomes something between
    :math:`d g + (D - d) \min(g, 0)` and :math:`d g + (D - d) \max(g, 0)`, and these are put
    between straight lines over the interval bounds of ``g``.

    Args:
        network: The layers.
        boxes: Of all nodes.
        gradients: Interval bounds of the gradients at all nodes.
        columns: Of the flattened input; None is all.
        outward: Whether to hold despite rounding.
    """
    like = boxes[0].center
    if columns is None:
        columns = torch.arange(like[0].numel(), device=like.device)
    widest = max(box.center[0].numel() for box in boxes)
    minima = []
    for rows in one_hot_chunks(columns, like, widest):
        both = torch.cat([rows, -rows], dim=1)
        minima.append(_minima(network, boxes, gradients, both, outward=outward))
    lower, negated_upper = halves(minima)
    return lower, -negated_upper


def _minima(
    network: Network,
    boxes: Sequence[Box],
    gradients: Sequence[Box],
    rows: Tensor,
    *,
    outward: bool,
) -> Tensor:
    total = RowSum(outward=outward)
    carried: dict[int, Tensor] = {0: rows}
    for number, node in enumerate(network.nodes, start=1):
        known = [carried.get(source) for source in node.inputs]
        if all(part is None for part in known):
            continue
        inputs = [boxes[source] for source in node.inputs]
        at_output = gradients[number]
        found = _through(node, known, inputs, boxes[number], at_output, total)
        if found is not None:
            carried[number] = found
    last = len(network.nodes)
    if last in carried:
        total.add(carried[last], gradients[last].center, gradients[last].full_radius())
    return total.total()


def _through(
    node: Node,
    rows: Sequence[Tensor | None],
    inputs: list[Box],
    output: Box,
    gradient: Box,
    total: RowSum,
) -> Tensor | None:
    """Rows of the gradients at a node's inputs as rows of the gradient at its output."""
    affine = affine_view(node.layer)
    if affine is not None:
        return _through_affine(affine, rows, inputs, gradient, total)
    own = rows[0]
    if own is None or not (is_relu(node.layer) or is_curved(type(node.layer))):
        parts = backward_bounds(node.layer, gradient, tuple(inputs), output, outward=total.outward)
        for part, row in zip(parts, rows, strict=True):
            if row is not None:
                total.add(row, part.center, _widened(part, outward=total.outward))
        return None
    if is_relu(node.layer):
        flattest, steepest = relu_slope_ends(inputs[0], outward=total.outward)
    else:
        shape = curve(node.layer)
        flattest, steepest = slope_ends(shape, inputs[0], outward=total.outward)
    low, high = gradient.ends(outward=total.outward)
    slope, offset = chord(low, high, outward=total.outward)
    spread = steepest - flattest
    positive, negative = own.clamp(min=0), own.clamp(max=0)
    total.add(positive, -spread * offset, None)
    total.add(negative, spread * offset, None)
    if total.outward:
        steepness = torch.maximum(flattest.abs(), steepest.abs())
        total.add(own, None, 16 * precision(own) * steepness * gradient.magnitude)
    return positive * (flattest + spread * (1 - slope)).unsqueeze(1) + negative * (
        flattest + spread * slope
    ).unsqueeze(1)


def _widened(part: Box, *, outward: bool) -> Tensor:
    radius = part.full_radius()
    return radius + _SPARE_TERMS * precision(radius) * part.magnitude if outward else radius


def _through_affine(
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
    if total.outward:  # the spare covers the sum over all layers that use an input
        sizes = affine.transposed(gradient.magnitude, shapes, absolute=True)
        error = sum_error(affine.num_terms(shapes) + _SPARE_TERMS, gradient.center)
        for row, size in zip(filled, sizes, strict=True):
            total.add(row, None, error * size)
    image = affine.apply(*(row.flatten(0, 1) for row in filled))
    return mapped(image, (batch, count))
