"""A model as a list of layers, and boxes sent through it forward and backward.

A model is traced once for each shape of samples. Its parameters, statistics and constants are read
anew at each call, since training changes them in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from torch import Tensor, fx, nn

from rightreasons.bounds.box import Box, precision, underflow_error
from rightreasons.bounds.combination import Elementwise
from rightreasons.bounds.curve import curve, jumps
from rightreasons.bounds.operation import Constant
from rightreasons.bounds.rule import backward_bounds, forward_bounds, is_curved
from rightreasons.bounds.trace import ModulePath, Plan, plan_of
from rightreasons.core.model_modes import innermost, refuse_altered_modules
from rightreasons.core.tracing import TracedModel, run_node, structure_of
from rightreasons.errors import UnsupportedLayerError

__all__ = ["Network", "Node", "core_of", "network_of", "refuse_jumps"]

_HIGHEST_JUMP = 1e-6  # below the rounding error of single precision
# What tracing found, by model: its structure then, and a plan for each input signature.
_PLANS: WeakKeyDictionary[nn.Module, tuple[Any, dict[Any, Plan]]] = WeakKeyDictionary()


class Node(NamedTuple):
    """A layer at its place in a network.

    Args:
        name: The path of its module in the model, or the function that was called.
        layer: The layer; its type chooses the rules.
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
            gradient: The box of the gradient at the last node.
            outward: Whether the boxes must hold despite rounding.
        """
        parts: list[list[Box]] = [[] for _ in boxes]
        parts[-1].append(gradient)
        gradients = [gradient] * len(boxes)
        for number in range(len(self.nodes), 0, -1):
            node = self.nodes[number - 1]
            gradients[number] = _sum_boxes(parts[number], outward=outward)
            inputs = tuple(boxes[source] for source in node.inputs)
            at_inputs = backward_bounds(
                node.layer, gradients[number], inputs, boxes[number], outward=outward
            )
            for source, part in zip(node.inputs, at_inputs, strict=True):
                parts[source].append(part)
        gradients[0] = _sum_boxes(parts[0], outward=outward)
        return gradients


def core_of(model: nn.Module) -> nn.Module:
    """The model without wrappers for several devices and without compilation."""
    return innermost(getattr(innermost(model), "_orig_mod", model))


def network_of(model: nn.Module, example: Tensor) -> Network:
    """The layers of a model, with the parameters and statistics it has now.

    The model is traced when it is first seen with samples of this shape. It is traced again if a
    module in it was exchanged or an attribute has another value. Hooks and replaced methods are
    refused, since no rule knows what they do.

    Args:
        model: Any that `torch.fx` can trace; wrappers for several devices are taken off.
        example: Samples ``(N, *S)``; only their shape and type count.

    Raises:
        UnsupportedLayerError: For layers without rules, all at once with their paths.

    Example:
        >>> import torch
        >>> network = network_of(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), torch.zeros(1, 3))
        >>> [(node.name, node.inputs) for node in network.nodes]
        [('0', (0,)), ('1', (1,))]
    """
    refuse_altered_modules(model)
    core = core_of(model)
    modules = dict(core.named_modules(remove_duplicate=False))
    structure = structure_of(core)
    known = _PLANS.get(core)
    if known is None or known[0] != structure:
        known = _PLANS[core] = (structure, {})
    signature = (tuple(example.shape[1:]), example.dtype, example.device)
    if signature not in known[1]:
        known[1][signature] = plan_of(core, example[:1].detach())
    return _fill_in(known[1][signature], core, modules)


def refuse_jumps(model: nn.Module, example: Tensor) -> None:
    """Raise if a layer jumps, so that bounds of its slope say nothing about how much it changes.

    Args:
        model: Any that `network_of` takes.
        example: Samples ``(N, *S)``; only their shape and type count.

    Raises:
        UnsupportedLayerError: For the first layer that jumps by more than rounding does.
    """
    for node in network_of(model, example).nodes:
        if not is_curved(type(node.layer)):
            continue
        height = max(jumps(curve(node.layer)).values(), default=0.0)
        if height > _HIGHEST_JUMP:
            raise UnsupportedLayerError(
                "Expected layers without jumps, so that bounds of the gradient bound the change, "
                f"but got `{node.name}` ({type(node.layer).__name__}), which jumps by "
                f"{height:.3g}. Give a Softplus its usual threshold of 20."
            )


def _fill_in(plan: Plan, model: nn.Module, modules: dict[str, nn.Module]) -> Network:
    """The network of a plan: its paths replaced by modules, its constants by their values."""
    constants = _read_constants(plan, model) if plan.constants else {}
    nodes = []
    for name, layer, inputs in plan.steps:
        if isinstance(layer, ModulePath):
            layer = modules[layer.path]
        elif isinstance(layer, Elementwise):
            layer = Elementwise(
                _constant_value(layer.factor, constants), _constant_value(layer.shift, constants)
            )
        nodes.append(Node(name, layer, inputs))
    return Network(tuple(nodes))


def _read_constants(plan: Plan, model: nn.Module) -> dict[str, Any]:
    root = TracedModel(model)
    for name, tensor in plan.literals.items():
        setattr(root, name, tensor)
    values: dict[str, Any] = {}
    for node in plan.constants:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda source: values[source.name])
        values[node.name] = run_node(node, root, args, kwargs)
    return values


def _constant_value(value: Any, constants: dict[str, Any]) -> Any:
    if not isinstance(value, Constant):
        return value
    tensor = constants[value.name]
    return value.factor * (tensor.reciprocal() if value.inverted else tensor)


def _sum_boxes(parts: list[Box], *, outward: bool) -> Box:
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
            radius = radius * (1 + ulps) + ulps * magnitude + underflow_error(center)
        total = Box(center, radius)
    return total
