"""A model as a graph of calls: the one use of `torch.fx` for bounds, LRP, folding and surgery.

Tracing runs a model's ``forward`` once, with a stand-in (a proxy) in place of the input, and writes
down every call. Four things go wrong without care, and are seen to here:

- A model that is one layer would not be a call in its own graph: wrap it with `TracedModel`.
- A ``forward`` that keeps something (``self.last = x``) keeps a proxy: attributes are put back.
- Hooks expect tensors and may be the user's own: they do not run unless asked for.
- A subclass may have a ``forward`` of its own, and then is not the layer its parent is: `runs_as`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, fx, nn

from rightreasons.errors import UnsupportedLayerError

__all__ = [
    "TracedModel",
    "call_name",
    "calling_module",
    "is_torch_layer",
    "module_path",
    "restored_attributes",
    "run_node",
    "runs_as",
    "trace_graph",
]

_PREFIX = "model"


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
            return _Tracer(is_leaf, with_hooks=with_hooks).trace(root)
        except Exception as error:  # the user's code may do anything with a proxy
            words = f"Expected a model that torch.fx can trace, {problem}: {error} {remedy}"
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


class _Tracer(fx.Tracer):
    """A tracer with the leaves that the caller chooses."""

    def __init__(
        self, is_leaf: Callable[[nn.Module], bool] | None = None, *, with_hooks: bool = False
    ) -> None:
        super().__init__()
        self._is_leaf = is_leaf
        self._with_hooks = with_hooks

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        del module_qualified_name
        return is_torch_layer(m) or (self._is_leaf is not None and self._is_leaf(m))

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        # `forward` runs the hooks of modules that are not leaves, `m.forward` does not.
        return super().call_module(m, forward if self._with_hooks else m.forward, args, kwargs)
