"""A model's forward pass, written down as a plan of layers for samples of one shape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn

from rightreasons.bounds.operation import (
    COPIES,
    OPERATIONS,
    Call,
    Constant,
    RefusedCall,
    Variable,
    operation_name,
)
from rightreasons.bounds.rule import refusal, ruled_kind
from rightreasons.bounds.shape import Reshape
from rightreasons.errors import InvalidBatchError, UnsupportedLayerError

__all__ = ["Path", "Plan", "Step", "plan_of"]

_ROOT = "model"
_OVERRIDABLE = ("forward", "_conv_forward")
_SHAPE_QUESTIONS = frozenset({"size", "dim", "ndimension", "numel", "getattr", "len"})
_COPYING = (
    *(nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
    *(nn.AlphaDropout, nn.FeatureAlphaDropout),
)
_RESHAPING = (nn.Flatten, nn.Unflatten)


class Path(NamedTuple):
    """Where in the model a layer is found, every time anew."""

    path: str


class Step(NamedTuple):
    """A node of the network to be: its name, its layer or where to find it, its inputs."""

    name: str
    layer: object
    inputs: tuple[int, ...]


class Plan(NamedTuple):
    """What tracing found.

    Args:
        steps: In the order of evaluation.
        constants: The calls that give tensors which do not depend on the input.
    """

    steps: tuple[Step, ...]
    constants: tuple[fx.Node, ...]


class _Root(nn.Module):
    """Holds the model, so that a model that is one layer is traced like any other."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        return self.model(x)


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        del module_qualified_name
        kind = ruled_kind(type(m))
        if kind is not None and _is_plain(m, kind) or _is_any(m, (*_COPYING, *_RESHAPING)):
            return True
        return type(m).__module__.startswith("torch.nn") and not isinstance(m, nn.Sequential)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        del forward  # would run the hooks of modules that are not leaves
        return super().call_module(m, m.forward, args, kwargs)


def plan_of(model: nn.Module, example: Tensor) -> Plan:
    """Trace a model in eval mode and lay out its layers.

    The model runs twice, on two and on three samples of zeros, without its hooks: that shows all
    shapes, what is overwritten in place, and whether anything depends on the size of the batch.

    Args:
        model: Left in the mode it is in.
        example: One sample ``(1, *S)``; its shape, type and device count.
    """
    with _evaluated(model), torch.inference_mode(False), torch.no_grad():
        root = _Root(model)
        try:
            graph = _Tracer().trace(root)
        except Exception as error:
            raise UnsupportedLayerError(
                "Expected a model that torch.fx can trace, but its forward pass depends on the "
                f"values of its input or calls what cannot be traced: {error} Bound a part of it "
                "that can be traced, or rewrite `if` and `for` on tensors."
            ) from error
        two, three = (_Layout(root, graph, example, size).plan() for size in (2, 3))
    if repr(two.steps) != repr(three.steps):
        raise UnsupportedLayerError(
            "Expected a model that treats each sample by itself, but its layers depend on the "
            "size of the batch. Do not use `x.size(0)` but to reshape."
        )
    return two


class _Layout:
    """One evaluation of a traced graph, node by node."""

    def __init__(self, root: _Root, graph: fx.Graph, example: Tensor, size: int) -> None:
        self.root, self.graph, self.size = root, graph, size
        self.example = torch.zeros_like(example).expand(size, *example.shape[1:]).clone()
        self.values: dict[fx.Node, Any] = {}
        self.versions: dict[fx.Node, int] = {}
        self.numbers: dict[fx.Node, int] = {}
        self.steps: list[Step] = []
        self.constants: list[fx.Node] = []
        self.refused: list[str] = []

    def plan(self) -> Plan:
        for node in self.graph.nodes:
            if node.op == "placeholder":
                self.values[node], self.numbers[node] = self.example, 0
            elif node.op == "output":
                self._check_output(node)
            else:
                self._visit(node)
        if self.refused:
            raise UnsupportedLayerError(
                "Expected layers that have rules for bounds, but got "
                f"{'; '.join(dict.fromkeys(self.refused))}. Add rules with "
                "`@forward_bounds.register` and `@backward_bounds.register`, or bound a part of "
                "the model."
            )
        output = next(node for node in self.graph.nodes if node.op == "output").args[0]
        return _pruned(self.steps, self.numbers[output], tuple(self.constants))

    def _visit(self, node: fx.Node) -> None:
        sources = [source for source in node.all_input_nodes if source in self.numbers]
        for source in sources:
            value = self.values[source]
            if source in self.versions and value._version != self.versions[source]:
                self._refuse(node, "its input was overwritten in place before")
        value = self._evaluated(node)
        self.values[node] = value
        if not sources:
            if isinstance(value, Tensor):
                self.constants.append(node)
            return
        if not isinstance(value, Tensor):
            if operation_name(node.target) not in _SHAPE_QUESTIONS and node.target is not getattr:
                self._refuse(node, "gives no tensor")
            return
        self.versions[node] = value._version
        try:
            self._lay(node, value)
        except RefusedCall as reason:
            self.numbers[node] = 0
            self._refuse(node, str(reason))

    def _refuse(self, node: fx.Node, reason: str) -> None:
        kind = ""
        if node.op == "call_module":
            kind = f"{type(self.root.get_submodule(str(node.target))).__name__}: "
        self.refused.append(f"`{_name(node) or _ROOT}` ({kind}{reason})")

    def _evaluated(self, node: fx.Node) -> Any:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), self.values.__getitem__)
        try:
            if node.op == "get_attr":
                return _attribute(self.root, str(node.target))
            if node.op == "call_module":
                return self.root.get_submodule(str(node.target)).forward(*args, **kwargs)
            if node.op == "call_method":
                return getattr(args[0], str(node.target))(*args[1:], **kwargs)
            return node.target(*args, **kwargs)  # type: ignore[operator]
        except (RuntimeError, ValueError, IndexError) as error:
            raise InvalidBatchError(
                f"Expected the model to take samples of shape {tuple(self.example.shape[1:])} and "
                f"type {self.example.dtype}, but `{_name(node) or _ROOT}` says: {error}"
            ) from error

    def _lay(self, node: fx.Node, value: Tensor) -> None:
        if value.ndim < 2 or value.shape[0] != self.size:
            raise RefusedCall(f"gives {tuple(value.shape)} for a batch of {self.size}")
        if node.op == "call_module":
            layer = self._module_layer(node, value)
        else:
            layer = self._call_layer(node, value)
        inputs = tuple(self.numbers[source] for source in _sources(node) if source in self.numbers)
        if layer is None:
            self.numbers[node] = inputs[0]
            return
        self.steps.append(Step(_name(node), layer, inputs))
        self.numbers[node] = len(self.steps)

    def _module_layer(self, node: fx.Node, value: Tensor) -> object:
        module = self.root.get_submodule(str(node.target))
        if _is_any(module, _COPYING):
            return None
        if _is_any(module, _RESHAPING):
            return Reshape(tuple(value.shape[1:]))
        kind = ruled_kind(type(module))
        reason = "has no rule" if kind is None else refusal(module)
        if module._forward_pre_hooks:
            reason = "has hooks that may change it; use torch.nn.utils.parametrizations"
        if reason is not None:
            raise RefusedCall(reason)
        return Path(_name(node))

    def _call_layer(self, node: fx.Node, value: Tensor) -> object:
        name = operation_name(node.target)
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), self._described)
        if name in COPIES:
            call = Call(name, args, kwargs, tuple(value.shape))
            if "dropout" in name and call.argument(2, "training", True):
                raise RefusedCall("draws at test time too; pass training=self.training")
            return None
        if name is None or name not in OPERATIONS:
            raise RefusedCall("has no rule")
        return OPERATIONS[name](Call(name, args, kwargs, tuple(value.shape)))

    def _described(self, node: fx.Node) -> Any:
        value = self.values[node]
        if not isinstance(value, Tensor):
            return value
        shape = tuple(value.shape)
        if node in self.numbers:
            return Variable(self.numbers[node], shape)
        return Constant(node.name, shape)

    def _check_output(self, node: fx.Node) -> None:
        result = node.args[0]
        if not isinstance(result, fx.Node) or result not in self.numbers:
            self.refused.append("the output (not one tensor that depends on the input)")


def _pruned(steps: list[Step], output: int, constants: tuple[fx.Node, ...]) -> Plan:
    """Only the steps that the output depends on; the one that gives it comes last."""
    needed = {output}
    for number in range(len(steps), 0, -1):
        if number in needed:
            needed.update(steps[number - 1].inputs)
    kept = sorted(needed | {0})
    renumbered = {old: new for new, old in enumerate(kept)}
    nodes = (steps[number - 1] for number in kept if number)
    return Plan(
        tuple(step._replace(inputs=tuple(renumbered[i] for i in step.inputs)) for step in nodes),
        constants,
    )


def _sources(node: fx.Node) -> list[fx.Node]:
    """The inputs in the order of the arguments; one that is given twice comes twice."""
    sources: list[fx.Node] = []
    fx.node.map_arg((node.args, node.kwargs), sources.append)
    return sources


def _name(node: fx.Node) -> str:
    if node.op in ("call_module", "get_attr"):
        return str(node.target).removeprefix(_ROOT).removeprefix(".")
    return operation_name(node.target) or str(getattr(node.target, "__name__", node.target))


def _attribute(root: nn.Module, path: str) -> Any:
    value: Any = root
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _is_plain(module: nn.Module, kind: type) -> bool:
    """Whether a module does what ``kind`` does: a subclass may have a forward of its own."""
    return isinstance(module, kind) and all(
        getattr(type(module), name, None) is getattr(kind, name, None) for name in _OVERRIDABLE
    )


def _is_any(module: nn.Module, kinds: tuple[type, ...]) -> bool:
    return any(_is_plain(module, kind) for kind in kinds)


@contextmanager
def _evaluated(model: nn.Module) -> Iterator[None]:
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
