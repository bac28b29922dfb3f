"""From a model to its network: traced once for each shape of samples, read anew at each call."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, fx, nn

from rightreasons.bounds.combination import Elementwise
from rightreasons.bounds.network import Network, Node
from rightreasons.bounds.operation import Constant
from rightreasons.bounds.trace import Path, Plan, plan_of
from rightreasons.core.second_order import innermost

__all__ = ["network_of"]

_Structure = tuple[tuple[str, type], ...]
_PLANS: WeakKeyDictionary[nn.Module, tuple[_Structure, dict[Any, Plan]]] = WeakKeyDictionary()


def network_of(model: nn.Module, example: Tensor) -> Network:
    """The layers of a model, with the parameters and statistics it has now.

    The model is traced when it is first seen with samples of this shape, and again if a module in
    it was exchanged for one of another kind. Forward hooks are not part of it.

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
    core = innermost(getattr(innermost(model), "_orig_mod", model))
    modules = dict(core.named_modules(remove_duplicate=False))
    structure = tuple((name, type(module)) for name, module in modules.items())
    known = _PLANS.get(core)
    if known is None or known[0] != structure:
        known = _PLANS[core] = (structure, {})
    key = (tuple(example.shape[1:]), example.dtype, example.device)
    if key not in known[1]:
        known[1][key] = plan_of(core, example[:1].detach())
    return _bound(known[1][key], core, modules)


def _bound(plan: Plan, model: nn.Module, modules: dict[str, nn.Module]) -> Network:
    constants = _read(plan, model) if plan.constants else {}
    nodes = []
    for name, layer, inputs in plan.steps:
        if isinstance(layer, Path):
            layer = modules[layer.path]
        elif isinstance(layer, Elementwise):
            layer = Elementwise(_value(layer.factor, constants), _value(layer.shift, constants))
        nodes.append(Node(name, layer, inputs))
    return Network(tuple(nodes))


def _read(plan: Plan, model: nn.Module) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for node in plan.constants:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda source: values[source.name])
        if node.op == "get_attr":
            path = str(node.target).split(".")[1:]
            values[node.name] = model
            for part in path:
                values[node.name] = getattr(values[node.name], part)
        elif node.op == "call_method":
            values[node.name] = getattr(args[0], str(node.target))(*args[1:], **kwargs)
        else:
            values[node.name] = node.target(*args, **kwargs)  # type: ignore[operator]
    return values


def _value(value: Any, constants: dict[str, Any]) -> Any:
    if not isinstance(value, Constant):
        return value
    tensor = constants[value.name]
    return value.factor * (tensor.reciprocal() if value.inverted else tensor)
