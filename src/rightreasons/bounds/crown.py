"""CROWN: linear bounds, propagated backward through the network (Zhang et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rightreasons.bounds.box import FUNCTION_ERROR, Box, precision, smallest, sum_error
from rightreasons.bounds.curve import curve, slope_ends
from rightreasons.bounds.linear import LinearMap, linear_map
from rightreasons.bounds.network import Network, Node
from rightreasons.bounds.rule import forward_bounds, is_curved, ruled_kind

__all__ = [
    "Band",
    "RowSum",
    "affine_view",
    "band",
    "chord",
    "crown_boxes",
    "halves",
    "intersected",
    "is_relu",
    "mapped",
    "one_hot_chunks",
    "relu_slopes",
    "row_minima",
]


def affine_view(layer: object) -> LinearMap | None:
    """The affine view of a layer, if it has one and no other rule comes before it."""
    if isinstance(layer, LinearMap):
        return layer
    return linear_map(layer) if ruled_kind(type(layer)) in linear_map.registry else None


def is_relu(layer: object) -> bool:
    """Whether a layer is bounded as ReLU is."""
    return ruled_kind(type(layer)) is nn.ReLU


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
        needed = needed * (1 + 8 * precision(slope)) + smallest(slope)
        offset = torch.where(crosses, needed, offset)
    return slope, offset


def relu_slopes(lower: Tensor, upper: Tensor) -> Tensor:
    """The slope of the line below ReLU: whichever of 0 and 1 cuts off the smaller area."""
    return (upper > -lower).to(lower.dtype)


class Band(NamedTuple):
    r"""Two parallel lines around a curve: :math:`s v + m \pm e`."""

    slope: Tensor
    middle: Tensor
    reach: Tensor


def band(layer: nn.Module, source: Box, output: Box, *, outward: bool) -> Band:
    """The narrower of two bands: along the mean slope, and the level one of the output's box."""
    shape = curve(layer)
    flattest, steepest = slope_ends(shape, source, outward=outward)
    slope, spread = (steepest + flattest) * 0.5, (steepest - flattest) * 0.5
    middle = shape.function(source.center) - slope * source.center
    reach = spread * source.full_radius()
    if outward:
        size = output.magnitude + shape.scale + slope.abs() * source.magnitude
        reach = reach * (1 + 8 * precision(reach)) + 2 * FUNCTION_ERROR * precision(reach) * size
    level = reach >= output.full_radius()
    return Band(
        torch.where(level, torch.zeros_like(slope), slope),
        torch.where(level, output.center, middle),
        torch.where(level, output.full_radius(), reach),
    )


class RowSum:
    r"""A sum of minima :math:`\sum_i \min_{|v_i - c_i| \le r_i} a_i v_i`, one for each row.

    Rows are ``(N, R, *S)``, or ``(1, R, *S)`` while they are the same for all samples; what they
    are multiplied with is ``(N, *S)``.

    Args:
        outward: Whether the sum must be a lower bound despite rounding.
    """

    def __init__(self, *, outward: bool) -> None:
        self.outward = outward
        self.num_parts = 0
        self._value: Tensor | None = None
        self._size: Tensor | None = None

    def add(self, rows: Tensor, center: Tensor | None, radius: Tensor | None) -> None:
        """Add the smallest value of the rows over a box; a part that is None is zero."""
        parts = []
        if center is not None:
            parts.append(_times(rows, center))
        if self.outward and center is not None:
            error = sum_error(center[0].numel(), center)
            slack = error * center.abs() + smallest(center)
            radius = slack if radius is None else radius * (1 + error) + slack
        elif self.outward and radius is not None:
            radius = radius * (1 + sum_error(radius[0].numel(), radius)) + smallest(radius)
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
        return self._value - (error * self._size + smallest(self._value))


def mapped(rows: Tensor, shape: tuple[int, ...] | torch.Size) -> Tensor:
    """Rows ``(N * R, *S)`` as ``(N, R, *S)`` again."""
    return rows.reshape(*shape, *rows.shape[1:])


def _times(rows: Tensor, vectors: Tensor) -> Tensor:
    flat_rows, flat = rows.flatten(2), vectors.expand(vectors.shape).flatten(1)
    if flat_rows.shape[0] == 1:
        return flat @ flat_rows[0].T  # (N, S) (S, R) -> (N, R)
    return torch.bmm(flat_rows, flat.unsqueeze(2)).squeeze(2)


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
