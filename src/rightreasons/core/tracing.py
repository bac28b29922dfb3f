"""A model as a graph of calls: the one use of `torch.fx` for bounds, LRP, folding and surgery.

Tracing runs a model's ``forward`` once, with a stand-in (a proxy) in place of the input, and writes
down every call. Four things go wrong without care, and are seen to here:

- A model that is one layer would not be a call in its own graph: wrap it with `TracedModel`.
- A ``forward`` that keeps something (``self.last = x``) keeps a proxy: attributes are put back.
- Hooks expect tensors and may be the user's own: they do not run unless asked for. What reads a
  layer by its class must refuse those it cannot see: `refuse_altered_modules`.
- A subclass may have a ``forward`` of its own, and then is not the layer its parent is: `runs_as`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn

from rightreasons.core.model_modes import alteration, test_time_mode
from rightreasons.core.proxies import InPlaceProxy, KnownProxy, known_value, without_tracing
from rightreasons.errors import UnsupportedLayerError

__all__ = [
    "SplitNet",
    "TracedModel",
    "call_name",
    "calling_module",
    "is_torch_layer",
    "module_path",
    "restored_attributes",
    "run_node",
    "runs_as",
    "split_at_first_layer",
    "structure_of",
    "trace_graph",
]

_PREFIX = "model"
_RESHAPES: set[object] = {"flatten", "view", "reshape", "size", getattr, operator.getitem}
_RESHAPES |= {torch.flatten, torch.reshape}


class TracedModel(nn.Module):
    """Holds a model, so that a model that is one layer is a call in its graph as well.

    Tensors that the model's code makes, such as ``torch.tensor([1.0, 2.0])``, become attributes of
    this module and not of the user's.

    Args:
        model: Takes one tensor.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        """The model's output."""
        return self.model(x)


def trace_graph(
    root: nn.Module,
    *,
    is_leaf: Callable[[nn.Module], bool] | None = None,
    with_hooks: bool = False,
    keeps_in_place: bool = False,
    example: Tensor | None = None,
    problem: str = "but its code depends on values",
    remedy: str = "",
) -> fx.Graph:
    """Trace a model into a graph of calls.

    Attributes of the modules below ``root`` are put back to what they were. Those of ``root`` are
    not: `torch.fx` keeps tensors there that the code makes, and the graph reads them.

    Args:
        root: A `TracedModel`, or the model itself if its own names must stay.
        is_leaf: Whether a module is one call, apart from PyTorch's own layers, which always are.
        with_hooks: Whether hooks of modules that are not leaves run, and are traced too.
        keeps_in_place: Whether ``x += y`` is written down as ``operator.iadd``, which it is for a
            tensor, and not as a sum that leaves ``x`` alone.
        example: An input. If it is given, the model's code may ask for shapes and types, and the
            graph holds for inputs of this shape alone, the size of the batch included.
        problem: Second part of the message if the model cannot be traced.
        remedy: Last part of that message.

    Raises:
        UnsupportedLayerError: If the model's code cannot run on a proxy.

    Example:
        >>> graph = trace_graph(TracedModel(nn.Sequential(nn.Linear(2, 2), nn.ReLU())))
        >>> [module_path(node.target) for node in graph.nodes if node.op == "call_module"]
        ['0', '1']
    """
    below = [module for module in root.modules() if module is not root]
    with restored_attributes(below):
        try:
            tracer = _Tracer(
                is_leaf, with_hooks=with_hooks, keeps_in_place=keeps_in_place, example=example
            )
            return tracer.trace(root)
        except Exception as error:  # the user's code may do anything with a proxy
            path, why = module_path(tracer.failed_in), str(error).rstrip(".")
            where = f" in `{path}`" if path else ""
            words = f"Expected a model that torch.fx can trace, {problem}{where}: {why}. {remedy}"
            raise UnsupportedLayerError(words.rstrip()) from error


@contextmanager
def restored_attributes(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Give modules back, afterwards, the plain attributes that they have now.

    Parameters, buffers and submodules are not touched: their containers stay the same objects.
    """
    kept = [(module, dict(module.__dict__)) for module in modules]
    try:
        yield
    finally:
        for module, attributes in kept:
            module.__dict__.clear()
            module.__dict__.update(attributes)


def run_node(
    node: fx.Node,
    root: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    with_hooks: bool = False,
) -> Any:
    """Do what one node of a graph does, with values in place of its arguments.

    Args:
        node: Any but a placeholder or the output.
        root: The module that was traced.
        args: Its positional arguments; for a method the object comes first.
        kwargs: Its keyword arguments.
        with_hooks: Whether a layer's hooks run.
    """
    match node.op:
        case "get_attr":
            return operator.attrgetter(str(node.target))(root)
        case "call_module":
            module = root.get_submodule(str(node.target))
            return (module if with_hooks else module.forward)(*args, **kwargs)
        case "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    return node.target(*args, **kwargs)  # type: ignore[operator]


def call_name(target: object) -> str:
    """The name of a function or method, without the underscore of those that work in place.

    Example:
        >>> call_name("relu_"), call_name(operator.add)
        ('relu', 'add')
    """
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    return name if name.startswith("_") else name.rstrip("_")


def module_path(target: object) -> str:
    """The path of a traced module or attribute within the model; empty for the model itself."""
    return str(target).removeprefix(_PREFIX).removeprefix(".")


def calling_module(node: fx.Node) -> str:
    """The path of the module whose code makes a call; empty for the model itself."""
    stack = node.meta.get("nn_module_stack") or {"": None}
    return module_path(list(stack)[-1])


def is_torch_layer(module: nn.Module) -> bool:
    """Whether a module is one of PyTorch's own layers, and no container."""
    return type(module).__module__.startswith("torch.nn") and not isinstance(module, nn.Sequential)


def runs_as(module: nn.Module, kind: type, methods: tuple[str, ...] = ("forward",)) -> bool:
    """Whether a module does what ``kind`` does: its class overrides none of the methods."""
    return isinstance(module, kind) and all(
        getattr(type(module), name, None) is getattr(kind, name, None) for name in methods
    )


@dataclass(frozen=True)
class SplitNet:
    r"""A net split behind its first layer, :math:`f(x) = h(W x + b)`.

    With :math:`z = W x + b` known, :math:`f(x + \delta) = h(z + W_S \delta_S)` needs only the
    columns S of W that :math:`\delta` changes, and :math:`\nabla_{x_S} t = W_S^\top \nabla_z t`.
    A change of a few features therefore costs a small product.

    Args:
        name: The first layer's name in ``named_modules``.
        layer: The first layer; its input is the flattened input of the model.
        tail: The rest of the net, which shares its modules with the model.
    """

    name: str
    layer: nn.Linear
    tail: nn.Module


_split_nets: WeakKeyDictionary[nn.Module, tuple[tuple[Any, ...], SplitNet | None]]
_split_nets = WeakKeyDictionary()  # by model, with its modules and their attributes at that time


def split_at_first_layer(model: nn.Module, x: Tensor) -> SplitNet | None:
    """Split ``model`` behind its first layer for inputs like ``x``; None if that is not linear.

    The split is computed once for a model, and again if a module is exchanged or changed. There is
    none for a net that cannot be traced, or whose two parts do not give what the whole gives.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> split_at_first_layer(net, torch.rand(5, 1, 2, 2)).name
        '1'
    """
    signature = (structure_of(model), *map(id, model.modules()), *x.shape[1:])
    if model not in _split_nets or _split_nets[model][0] != signature:
        _split_nets[model] = (signature, _split(model, x))
    split = _split_nets[model][1]
    # The tail alone would not run hooks on the model, nor on the first layer, as its user expects.
    return None if split is None or alteration(model) or alteration(split.layer) else split


def _split(model: nn.Module, x: Tensor) -> SplitNet | None:
    num_features = x[0].numel() if len(x) else 0
    has_candidate = any(
        type(module) is nn.Linear and module.in_features == num_features
        for module in model.modules()
    )
    if not x.is_floating_point() or not has_candidate or not len(x):
        return None  # before tracing, which is slow
    with test_time_mode(model):
        split = _trace_split(model)
        return split if split is not None and _equals_model(split, model, x[:2]) else None


def _trace_split(model: nn.Module) -> SplitNet | None:
    """Trace the model and split it behind its first layer."""
    # The model itself is the root, not a wrapper, so that the tail keeps the names of its modules.
    # Its own attributes are put back at the end: the tail reads tensors that tracing leaves there.
    # Hooks inside belong to the tail.
    with restored_attributes([model]):
        try:
            graph = trace_graph(model, with_hooks=True, keeps_in_place=True)
        except UnsupportedLayerError:
            return None
        return _split_graph(model, graph)


def _split_graph(model: nn.Module, graph: fx.Graph) -> SplitNet | None:
    """Make the first layer's output the input of a traced graph."""
    modules = dict(model.named_modules())
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    calls = [node for node in graph.nodes if node.op == "call_module"]
    linear = [node for node in calls if type(modules[str(node.target)]) is nn.Linear]
    if len(inputs) != 1 or not linear:
        return None
    first = linear[0]
    # Only reshapes may come before: then W's columns are the flattened features, in their order.
    before = list(graph.nodes)[: list(graph.nodes).index(first)]
    if not all(_only_reshapes(node, modules) for node in before):
        return None
    if sum(node.target == first.target for node in calls) > 1:
        return None  # a second use of W would see the change too
    with graph.inserting_after(inputs[0]):
        new_input = graph.placeholder("first_output")
    first.replace_all_uses_with(new_input)
    graph.erase_node(first)
    graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output"))
    if inputs[0].users:
        return None  # a skip connection reads the input behind the first layer
    graph.erase_node(inputs[0])
    layer = modules[str(first.target)]
    if not isinstance(layer, nn.Linear):
        return None
    return SplitNet(str(first.target), layer, fx.GraphModule(model, graph))


def _only_reshapes(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    if node.op == "call_module":
        return type(modules[str(node.target)]) in (nn.Flatten, nn.Identity)
    return node.op == "placeholder" or node.target in _RESHAPES


def _equals_model(split: SplitNet, model: nn.Module, x: Tensor) -> bool:
    """Whether the two parts give what the whole model gives for ``x``.

    Tracing records one path. A forward that depends on values, or a transposed input, shows here.
    """
    recorded: list[Tensor] = []

    def record(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        del module
        recorded.extend((inputs[0], output))

    handle = split.layer.register_forward_hook(record)
    try:
        with torch.no_grad():
            whole = model(x)
            parts = split.tail(recorded[1]) if len(recorded) == 2 else None
    finally:
        handle.remove()
    return (
        parts is not None
        and isinstance(whole, Tensor)
        and recorded[0].shape == x.flatten(1).shape
        and torch.equal(recorded[0], x.flatten(1))
        and torch.allclose(parts, whole)
    )


class _Tracer(fx.Tracer):
    """A tracer with the leaves that the caller chooses."""

    def __init__(
        self,
        is_leaf: Callable[[nn.Module], bool] | None = None,
        *,
        with_hooks: bool = False,
        keeps_in_place: bool = False,
        example: Tensor | None = None,
    ) -> None:
        super().__init__()
        self._is_leaf = is_leaf
        self._with_hooks = with_hooks
        self._keeps_in_place = keeps_in_place
        self._example = example
        self.failed_in = ""

    def proxy(self, node: fx.Node) -> fx.Proxy:
        if self._example is not None:
            return KnownProxy(node, self)
        return InPlaceProxy(node, self) if self._keeps_in_place else super().proxy(node)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        del module_qualified_name
        return is_torch_layer(m) or (self._is_leaf is not None and self._is_leaf(m))

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        # `forward` runs the hooks of modules that are not leaves, `m.forward` does not.
        try:
            return super().call_module(m, forward if self._with_hooks else m.forward, args, kwargs)
        except Exception:
            self.failed_in = self.failed_in or self.path_of_module(m)  # the innermost one is first
            raise

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, *more: Any, **named: Any
    ) -> Any:
        proxy = super().create_proxy(kind, target, args, kwargs, *more, **named)
        if isinstance(proxy, KnownProxy):
            given = fx.node.map_aggregate((args, kwargs), known_value)
            is_input = kind == "placeholder"
            with without_tracing():
                proxy.known = self._example if is_input else run_node(proxy.node, self.root, *given)
        return proxy


def structure_of(model: nn.Module) -> tuple[Any, ...]:
    """All that a trace of a model may depend on, to compare with what it was before.

    These are the modules, their plain attributes, hooks and replaced methods, and the shapes of
    their tensors. Left out are values of tensors, train mode, and what code reads from elsewhere.

    Example:
        >>> model = nn.Sequential(nn.LeakyReLU(0.1))
        >>> before = structure_of(model)
        >>> model[0].negative_slope = 0.2
        >>> structure_of(model) == before
        False
    """
    return tuple(
        (name, type(module), _contents(_told_apart_by(module), _DEPTH))
        for name, module in model.named_modules(remove_duplicate=False)
    )


_DEPTH = 4  # attributes inside attributes that are compared


_INTERNALS = frozenset(vars(nn.Module()))


_BY_VALUE = (int, str, bytes, type(None), type, torch.dtype, torch.device)


def _told_apart_by(module: nn.Module) -> dict[str, Any]:
    """Attributes without those that every module has and that are empty here."""
    return {
        name: value
        for name, value in vars(module).items()
        if name not in _INTERNALS or (value and name not in ("training", "_modules"))
    }


def _contents(value: Any, depth: int) -> Any:
    """Something that is equal for equal contents, without a reference that keeps a model alive."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype, value.device
    if isinstance(value, float):
        return repr(value)  # NaN equals itself in this form
    if isinstance(value, _BY_VALUE):
        return type(value), value
    if depth and isinstance(value, Mapping):
        return tuple((repr(key), _contents(part, depth - 1)) for key, part in value.items())
    if depth and isinstance(value, list | tuple | set | frozenset):
        return type(value), tuple(_contents(part, depth - 1) for part in value)
    is_own = not type(value).__module__.startswith(("torch", "builtins"))
    if depth and is_own and not isinstance(value, nn.Module):
        return id(value), _contents(getattr(value, "__dict__", {}), depth - 1)
    return type(value), id(value)
