"""A model as a list of layers, and boxes sent through it forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rightreasons.bounds.box import Box, precision, smallest
from rightreasons.bounds.rule import backward_bounds, forward_bounds

__all__ = ["Network", "Node"]


class Node(NamedTuple):
    """A layer at its place in a network.

    Args:
        name: The path of its module in the model, or the function that was called.
        layer: Chooses the rules.
        inputs: Numbers of the nodes whose outputs it takes; 0 is the network's input.
    """

    name: str
    layer: object
    inputs: tuple[int, ...]


class Network(NamedTuple):
    """Layers in the order of evaluation; node ``n`` of the list has the number ``n + 1``.

    Args:
        nodes: The last one gives the logits.
    """

    nodes: tuple[Node, ...]

    def forward(self, box: Box, *, outward: bool = False) -> list[Box]:
        """The boxes of all nodes, the input first."""
        boxes = [box]
        for node in self.nodes:
            inputs = [boxes[number] for number in node.inputs]
            boxes.append(forward_bounds(node.layer, *inputs, outward=outward))
        return boxes

    def backward(self, boxes: Sequence[Box], gradient: Box, *, outward: bool = False) -> list[Box]:
        """The boxes of the gradients at all nodes, the input first.

        Args:
            boxes: What `forward` gave, or tighter ones.
            gradient: At the last node.
            outward: Whether to hold despite rounding.
        """
        parts: list[list[Box]] = [[] for _ in boxes]
        parts[-1].append(gradient)
        gradients = [gradient] * len(boxes)
        for number in range(len(self.nodes), 0, -1):
            node = self.nodes[number - 1]
            gradients[number] = _summed(parts[number], outward=outward)
            inputs = tuple(boxes[source] for source in node.inputs)
            pulled = backward_bounds(
                node.layer, gradients[number], inputs, boxes[number], outward=outward
            )
            for source, part in zip(node.inputs, pulled, strict=True):
                parts[source].append(part)
        gradients[0] = _summed(parts[0], outward=outward)
        return gradients


def _summed(parts: list[Box], *, outward: bool) -> Box:
    total = parts[0]
    for part in parts[1:]:
        center = total.center + part.center
        if total.is_exact and part.is_exact and not outward:
            total = Box.exact(center)
            continue
        radius = total.full_radius() + part.full_radius()
        if outward:  # the model's own sum is rounded, and so are both of these
            ulps = 4 * precision(center)
            magnitude = total.center.abs() + part.center.abs()
            radius = radius * (1 + ulps) + ulps * magnitude + smallest(center)
        total = Box(center, radius)
    return total
