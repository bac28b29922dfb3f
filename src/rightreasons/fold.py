"""Nets whose first layer is affine: the layer, and the rest of the net as a function of it."""

from __future__ import annotations

from dataclasses import dataclass
from operator import getitem
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn

from rightreasons.mode import as_at_test_time

__all__ = ["Fold", "fold_of"]


@dataclass(frozen=True)
class Fold:
    r"""A net as :math:`f(x) = h(W x + b)`: then a change of few features is a small product.

    With :math:`z = W x + b` known, :math:`f(x + \delta) = h(z + W_S \delta_S)` needs the columns S
    of W that :math:`\delta` touches, and :math:`\nabla_{x_S} t = W_S^\top \nabla_z t`.

    Args:
        name: Of the layer, in ``named_modules``.
        layer: The first layer; it sees the flattened input.
        tail: The rest, which shares its modules with the model.
    """

    name: str
    layer: nn.Linear
    tail: nn.Module


_RESHAPES = ("flatten", "view", "reshape", "size", getattr, getitem, torch.flatten, torch.reshape)

_known: WeakKeyDictionary[nn.Module, tuple[tuple[int, ...], Fold | None]] = WeakKeyDictionary()


def fold_of(model: nn.Module, x: Tensor) -> Fold | None:
    """The fold of ``model`` for inputs like ``x``, or None if its first layer is not linear.

    Found once for a model, and again if one of its modules is exchanged. A net that cannot be
    traced, or of which the two halves do not give what the whole gives, has none.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> fold_of(net, torch.rand(5, 1, 2, 2)).name
        '1'
    """
    signature = (*map(id, model.modules()), *x.shape[1:])
    if model not in _known or _known[model][0] != signature:
        _known[model] = (signature, _found(model, x))
    fold = _known[model][1]
    return None if fold is None or _is_watched(model) or _is_watched(fold.layer) else fold


def _is_watched(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _found(model: nn.Module, x: Tensor) -> Fold | None:
    num_features = x[0].numel()
    first = (m for m in model.modules() if type(m) is nn.Linear and m.in_features == num_features)
    if not x.is_floating_point() or next(first, None) is None or not len(x):
        return None
    with as_at_test_time(model):
        fold = _cut(model)
        return fold if fold is not None and _is_faithful(model, fold, x[:2]) else None


def _cut(model: nn.Module) -> Fold | None:
    """Trace the model and begin it after its first layer."""
    left = [(module, dict(module.__dict__)) for module in model.modules()]
    try:
        graph = fx.Tracer().trace(model)
    except Exception:  # a forward of the user's own may fail in any way when traced
        return None
    finally:
        for module, attributes in left:  # a forward that keeps something kept a proxy
            module.__dict__.clear()
            module.__dict__.update(attributes)
    modules = dict(model.named_modules())
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    calls = [node for node in graph.nodes if node.op == "call_module"]
    linear = [node for node in calls if type(modules[str(node.target)]) is nn.Linear]
    if len(inputs) != 1 or not linear:
        return None
    first = linear[0]
    before = list(graph.nodes)[: list(graph.nodes).index(first)]
    reshapes = all(_only_reshapes(node, modules) for node in before)
    if not reshapes or sum(node.target == first.target for node in calls) > 1:
        return None
    with graph.inserting_after(inputs[0]):
        entry = graph.placeholder("entry")
    first.replace_all_uses_with(entry)
    graph.erase_node(first)
    graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output"))
    if inputs[0].users:
        return None
    graph.erase_node(inputs[0])
    layer = modules[str(first.target)]
    if not isinstance(layer, nn.Linear):
        return None
    return Fold(str(first.target), layer, fx.GraphModule(model, graph))


def _only_reshapes(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    if node.op == "call_module":
        return type(modules[str(node.target)]) in (nn.Flatten, nn.Identity)
    return node.op == "placeholder" or node.target in _RESHAPES


def _is_faithful(model: nn.Module, fold: Fold, x: Tensor) -> bool:
    """Whether the halves give what the whole gives, for the first samples."""
    seen: list[Tensor] = []

    def remember(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        del module
        seen.extend((inputs[0], output))

    handle = fold.layer.register_forward_hook(remember)
    try:
        with torch.no_grad():
            whole = model(x)
            halves = fold.tail(seen[1]) if len(seen) == 2 else None
    finally:
        handle.remove()
    return (
        halves is not None
        and isinstance(whole, Tensor)
        and seen[0].shape == x.flatten(1).shape
        and torch.equal(seen[0], x.flatten(1))
        and torch.allclose(halves, whole)
    )
