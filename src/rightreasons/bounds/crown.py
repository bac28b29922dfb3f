"""CROWN: linear bounds, propagated backward through the network (Zhang et al. 2018).

A row is a linear function of a node's output; rows are ``(N, R, *S)``. To find its minimum over the
input box, a row is rewritten layer by layer as a row of the layer's input. An affine layer rewrites
it exactly. An activation is replaced by one of the straight lines that enclose its curve.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rightreasons.bounds.box import FUNCTION_ERROR, Box, precision, sum_error, underflow_error
from rightreasons.bounds.curve import curve, jump_height, slope_ends
from rightreasons.bounds.linear import LinearMap, linear_map
from rightreasons.bounds.network import Network, Node
from rightreasons.bounds.rule import forward_bounds, is_curved, ruled_kind

__all__ = [
    "ParallelLines",
    "RowSum",
    "affine_view",
    "chord",
    "crown_boxes",
    "intersect",
    "is_relu",
    "join_halves",
    "one_hot_chunks",
    "parallel_lines",
    "relu_lower_slopes",
    "row_minima",
    "unflatten_rows",
]

_MOST_NUMBERS = 2**24  # most elements in the rows of one chunk


def crown_boxes(network: Network, box: Box, *, outward: bool) -> list[Box]:
    """The boxes of all nodes, tightened before every activation and at the end.

    Activations on one side of a ReLU's kink for certain get no row: the ReLU is a line there,
    whatever their bounds.
    """
    boxes = [box]
    is_input_copy = [True]  # whether a node only copies the input, so that its box is exact
    activated = {source for node in network.nodes if _is_nonlinear(node) for source in node.inputs}
    for number, node in enumerate(network.nodes, start=1):
        inputs = [boxes[source] for source in node.inputs]
        boxes.append(forward_bounds(node.layer, *inputs, outward=outward))
        affine = affine_view(node.layer)
        from_input = len(node.inputs) == 1 and is_input_copy[node.inputs[0]]
        shapes = [tuple(source.center.shape[1:]) for source in inputs]
        copies = affine is not None and not affine.num_terms(shapes)
        is_input_copy.append(from_input and copies)
        # The first affine layer is bounded exactly by intervals already.
        if affine is None or from_input or number not in activated | {len(network.nodes)}:
            continue
        consumers = [other for other in network.nodes if number in other.inputs]
        lower, upper = boxes[number].ends(outward=outward)
        is_open = torch.ones_like(lower, dtype=torch.bool)
        if consumers and all(is_relu(consumer.layer) for consumer in consumers):
            is_open = (lower < 0) & (upper > 0)
        boxes[number] = _tighten(network, boxes, number, is_open, outward=outward)
    return boxes


def row_minima(
    network: Network, boxes: Sequence[Box], number: int, rows: Tensor, *, outward: bool
) -> Tensor:
    """Lower bounds ``(N, R)`` of linear functions of a node's output.

    Args:
        network: The layers.
        boxes: The boxes of the nodes up to this one.
        number: The node's number.
        rows: The functions, ``(N, R, *S)`` or ``(1, R, *S)``.
        outward: Whether the bounds must hold despite rounding.
    """
    total = RowSum(outward=outward)
    waiting = {number: rows}
    for current in range(number, 0, -1):
        if current not in waiting:
            continue
        rows = waiting.pop(current)
        node = network.nodes[current - 1]
        parts = _pull_rows(node, rows, [boxes[i] for i in node.inputs], boxes[current], total)
        for source, part in zip(node.inputs, parts, strict=False):
            if source in waiting:  # another layer reads the same node
                part = waiting[source] + part
                if outward:  # the error of this sum, at most the rows' precision times |v|
                    total.add(part, None, 2 * precision(part) * boxes[source].magnitude)
            waiting[source] = part
    if 0 in waiting:
        total.add(waiting[0], boxes[0].center, boxes[0].full_radius())
    return total.total()


class RowSum:
    r"""A sum of minima :math:`\sum_i \min_{|v_i - c_i| \le r_i} a_i v_i`, one for each row.

    Rows ``a`` are ``(N, R, *S)``, or ``(1, R, *S)`` while all samples share them; centres and radii
    are ``(N, *S)``.

    Args:
        outward: Whether the sum must be a lower bound despite rounding.
    """

    def __init__(self, *, outward: bool) -> None:
        self.outward = outward
        self.num_parts = 0
        self._value: Tensor | None = None
        self._size: Tensor | None = None

    def add(self, rows: Tensor, center: Tensor | None, radius: Tensor | None) -> None:
        """Add the minima of the rows over a box; a centre or radius of None is zero."""
        parts = []
        if center is not None:
            parts.append(_times(rows, center))
        # Rounding makes a c uncertain by at most e |a| |c|, as if e |c| were part of the radius.
        if self.outward and center is not None:
            error = sum_error(center[0].numel(), center)
            slack = error * center.abs() + underflow_error(center)
            radius = slack if radius is None else radius * (1 + error) + slack
        elif self.outward and radius is not None:
            radius = radius * (1 + sum_error(radius[0].numel(), radius)) + underflow_error(radius)
        if radius is not None:
            parts.append(-_times(rows.abs(), radius))
        for part in parts:
            self.num_parts += 1
            self._value = part if self._value is None else self._value + part
            if self.outward:
                self._size = part.abs() if self._size is None else self._size + part.abs()

    def total(self) -> Tensor:
        """The sums, ``(N, R)``."""
        if self._value is None:
            return torch.zeros(())
        if self._size is None:
            return self._value
        error = 2 * (self.num_parts + 4) * precision(self._value)
        return self._value - (error * self._size + underflow_error(self._value))


class ParallelLines(NamedTuple):
    r"""Two parallel lines around a curve: :math:`s v + m \pm e`."""

    slope: Tensor
    middle: Tensor
    reach: Tensor


def parallel_lines(layer: nn.Module, source: Box, output: Box, *, outward: bool) -> ParallelLines:
    """Enclose an activation's curve over a box.

    Two pairs of lines enclose it: one along the mean slope, and the horizontal one of the output's
    box. The nearer pair is taken, element by element.
    """
    activation = curve(layer)
    flattest, steepest = slope_ends(activation, source, outward=outward)
    slope, spread = (steepest + flattest) * 0.5, (steepest - flattest) * 0.5
    middle = activation.function(source.center) - slope * source.center
    # The curve leaves the line by at most this: its slopes differ, and it may jump.
    reach = spread * source.full_radius() + jump_height(activation, source, outward=outward)
    if outward:
        size = output.magnitude + activation.scale + slope.abs() * source.magnitude
        reach = reach * (1 + 8 * precision(reach)) + 2 * FUNCTION_ERROR * precision(reach) * size
    is_flat = reach >= output.full_radius()
    return ParallelLines(
        torch.where(is_flat, torch.zeros_like(slope), slope),
        torch.where(is_flat, output.center, middle),
        torch.where(is_flat, output.full_radius(), reach),
    )


def chord(lower: Tensor, upper: Tensor, *, outward: bool) -> tuple[Tensor, Tensor]:
    r"""Slope and offset of the line above :math:`\max(v, 0)` through both its ends.

    Where the box does not contain zero, ReLU itself is a line.
    """
    crosses = (lower < 0) & (upper > 0)
    width = torch.where(crosses, upper - lower, torch.ones_like(upper))
    slope = torch.where(crosses, upper / width, (upper > 0).to(upper.dtype))
    offset = torch.where(crosses, -slope * lower, torch.zeros_like(slope))
    if outward:  # the line must lie above both ends despite rounding
        needed = torch.maximum(offset, (1 - slope) * upper)
        needed = needed * (1 + 8 * precision(slope)) + underflow_error(slope)
        offset = torch.where(crosses, needed, offset)
    return slope, offset


def relu_lower_slopes(lower: Tensor, upper: Tensor) -> Tensor:
    """The slope of the line below ReLU: whichever of 0 and 1 cuts off the smaller area."""
    return (upper > -lower).to(lower.dtype)


def affine_view(layer: object) -> LinearMap | None:
    """The affine view of a layer, if it has one and no other rule comes before it."""
    if isinstance(layer, LinearMap):
        return layer
    return linear_map(layer) if ruled_kind(type(layer)) in linear_map.registry else None


def is_relu(layer: object) -> bool:
    """Whether a layer is bounded as ReLU is."""
    return ruled_kind(type(layer)) is nn.ReLU


def intersect(outer: tuple[Tensor, Tensor], inner: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The intersection of two pairs of ends; the first pair where rounding leaves none."""
    lower, upper = torch.maximum(outer[0], inner[0]), torch.minimum(outer[1], inner[1])
    fits = lower <= upper
    return torch.where(fits, lower, outer[0]), torch.where(fits, upper, outer[1])


def one_hot_chunks(chosen: Tensor, like: Tensor, widest: int) -> Iterator[Tensor]:
    """Rows ``(1, R, *S)`` that select single features, as many at a time as memory allows."""
    num_rows = max(1, _MOST_NUMBERS // (2 * widest * max(1, len(like))))
    shape = like.shape[1:]
    for indices in torch.split(chosen, num_rows):
        rows = like.new_zeros(len(indices), shape.numel())
        rows = rows.scatter(1, indices[:, None], 1.0)
        yield rows.reshape(1, len(indices), *shape)


def join_halves(chunks: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Concatenate the first halves of chunks ``(N, 2 R)``, and the second halves."""
    pairs = [torch.chunk(chunk, 2, dim=1) for chunk in chunks]
    first, second = zip(*pairs, strict=True)
    return torch.cat(first, dim=1), torch.cat(second, dim=1)


def unflatten_rows(rows: Tensor, shape: tuple[int, ...] | torch.Size) -> Tensor:
    """Rows ``(N * R, *S)`` as ``(N, R, *S)`` again."""
    return rows.reshape(*shape, *rows.shape[1:])


def _tighten(
    network: Network, boxes: list[Box], number: int, is_open: Tensor, *, outward: bool
) -> Box:
    """The box of a node, intersected with linear bounds where ``is_open``."""
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
    lowest, negated_highest = join_halves(minima)
    old_lower, old_upper = (end.flatten(1) for end in box.ends(outward=outward))
    lower, upper = intersect(
        (old_lower, old_upper),
        (
            old_lower.index_copy(1, chosen, lowest),
            old_upper.index_copy(1, chosen, -negated_highest),
        ),
    )
    # Only where this sample needs it, so that no sample depends on the others of its batch.
    lower = torch.where(is_open, lower, old_lower)
    upper = torch.where(is_open, upper, old_upper)
    return Box.between(lower, upper, outward=outward).reshape(box.center.shape)


def _pull_rows(
    node: Node, rows: Tensor, inputs: list[Box], output: Box, total: RowSum
) -> tuple[Tensor, ...]:
    """Rewrite rows of a node's output as rows of its inputs; constants go into the sum."""
    affine = affine_view(node.layer)
    if affine is not None:
        shapes = [tuple(box.center.shape[1:]) for box in inputs]
        num_terms = affine.num_terms(shapes)
        offset = affine.offset(output.center.ndim - 1)
        if offset is not None:
            offset = offset.to(rows.dtype).expand_as(output.center)
        slack = None  # the model's own rounding error in this layer
        if total.outward and num_terms:
            size = affine.apply(*(box.magnitude for box in inputs), absolute=True)
            magnitude = affine.offset_magnitude(output.center.ndim - 1)
            size = size if magnitude is None else size + magnitude
            slack = sum_error(num_terms, size) * size
        total.add(rows, offset, slack)
        pulled = affine.transposed(rows.flatten(0, 1), shapes)
        return tuple(unflatten_rows(part, rows.shape[:2]) for part in pulled)
    if is_relu(node.layer):
        lower, upper = inputs[0].ends(outward=total.outward)
        slope, offset = chord(lower, upper, outward=total.outward)
        # For a minimum a positive factor takes the line below the ReLU, a negative one the chord.
        below, above = rows.clamp(min=0), rows.clamp(max=0)
        total.add(above, offset, None)
        lower_slope = torch.where(slope < 1, relu_lower_slopes(lower, upper), slope)
        pulled_rows = below * lower_slope.unsqueeze(1) + above * slope.unsqueeze(1)
        if total.outward:
            total.add(pulled_rows, None, 2 * precision(rows) * inputs[0].magnitude)
        return (pulled_rows,)
    if is_curved(type(node.layer)):
        lines = parallel_lines(node.layer, inputs[0], output, outward=total.outward)  # type: ignore[arg-type]
        total.add(rows, lines.middle, lines.reach)
        pulled_rows = rows * lines.slope.unsqueeze(1)
        if total.outward:
            total.add(pulled_rows, None, 2 * precision(rows) * inputs[0].magnitude)
        return (pulled_rows,)
    total.add(rows, output.center, output.full_radius())  # no relaxation: the output's box counts
    return ()


def _times(rows: Tensor, vectors: Tensor) -> Tensor:
    flat_rows, flat = rows.flatten(2), vectors.expand(vectors.shape).flatten(1)
    if flat_rows.shape[0] == 1:
        return flat @ flat_rows[0].T  # (N, S) (S, R) -> (N, R)
    return torch.bmm(flat_rows, flat.unsqueeze(2)).squeeze(2)


def _is_nonlinear(node: Node) -> bool:
    return affine_view(node.layer) is None
