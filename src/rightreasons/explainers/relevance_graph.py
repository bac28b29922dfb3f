"""A model as a graph of operations, each with the way relevance passes through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from torch import Tensor, fx, nn

from rightreasons.core.tracing import (
    TracedModel,
    call_name,
    calling_module,
    module_path,
    run_node,
    runs_as,
    trace_graph,
)
from rightreasons.errors import UnsupportedLayerError

__all__ = ["Kind", "Operation", "RelevanceGraph"]


class Kind(Enum):
    """How relevance passes from an operation's output to its inputs."""

    AFFINE = auto()
    """Linear layer or convolution: a rule splits it."""
    AVERAGE = auto()
    """Average pooling and the like: the same rule, with weights that are not negative."""
    ROUTE = auto()
    """Moves, selects or repeats elements: it goes to the elements that were taken."""
    PASS = auto()
    """Each element comes from one element, which gets its relevance."""
    SCALE = auto()
    """As PASS, and affine with constants, so that a box is mapped to a box."""
    SUM = auto()
    """A sum: it is split among the summands."""


_AFFINE = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_MODULES: dict[Kind, tuple[type[nn.Module], ...]] = {
    Kind.AFFINE: _AFFINE,
    Kind.AVERAGE: (
        *(nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
        *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
    ),
    Kind.ROUTE: (
        *(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.Flatten, nn.Unflatten, nn.ZeroPad2d),
        *(nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d, nn.PixelShuffle),
    ),
    Kind.PASS: (
        *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.Softplus, nn.ELU, nn.CELU, nn.SELU),
        *(nn.GELU, nn.SiLU, nn.Mish, nn.Sigmoid, nn.Tanh, nn.Hardswish, nn.Hardtanh),
    ),
    Kind.SCALE: (
        *(*_NORMS, nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
        *(nn.AlphaDropout, nn.FeatureAlphaDropout),
    ),
}
_NAMES: dict[Kind, set[str]] = {
    Kind.AVERAGE: {
        *("avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d"),
        *("adaptive_avg_pool3d", "mean", "sum"),
    },
    Kind.ROUTE: {
        *("max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool2d", "flatten", "reshape"),
        *("view", "permute", "transpose", "squeeze", "unsqueeze", "unflatten", "getitem", "cat"),
        *("contiguous", "concat", "expand", "expand_as"),
    },
    Kind.PASS: {
        *("relu", "relu6", "leaky_relu", "softplus", "elu", "celu", "selu", "gelu", "silu", "mish"),
        *("sigmoid", "tanh", "hardtanh", "hardswish"),
    },
    Kind.SCALE: {"dropout", "dropout2d", "alpha_dropout", "clone", "to", "float", "double", "neg"},
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names}
_ARITHMETIC = ("add", "sub", "mul", "truediv")
_SAME_AS = {"div": "truediv", "subtract": "sub", "multiply": "mul"}


@dataclass(frozen=True)
class Operation:
    """One operation of the pass, with all that passing relevance through it needs."""

    kind: Kind
    parents: tuple[fx.Node, ...]
    function: Callable[..., Tensor]
    """Computes its output from the values of its parents."""
    layer: nn.Module | None = None
    norm: nn.Module | None = None
    """A BatchNorm that is folded into this layer, since nothing else reads the layer."""


class RelevanceGraph(nn.Module):
    """Runs a model operation by operation and records each with its output.

    A call with ``x`` gives the logits. It fills `values`, `source`, `sink`, and in `operations`, in
    order, all that depend on ``x``. One error names all operations without a rule.

    Args:
        model: A model that `torch.fx` can trace.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.root = TracedModel(model)
        self.values: dict[fx.Node, Any] = {}
        self.operations: dict[fx.Node, Operation] = {}
        self.source: fx.Node
        self.sink: fx.Node

    def forward(self, x: Tensor) -> Tensor:
        """The logits, as the model gives them."""
        graph = trace_graph(
            self.root,
            is_leaf=_is_leaf,
            remedy="Use another explainer, such as InputTimesGradient.",
        )
        nodes = list(graph.nodes)
        self.source, *others = nodes
        self.values = {self.source: x}
        self.operations = {}
        unsupported = []
        dependent = {self.source}  # nodes whose values depend on x
        for node in others[:-1]:
            value = self.values[node] = self._run(node, {})
            if dependent.isdisjoint(node.all_input_nodes) or not _holds_features(value):
                continue
            dependent.add(node)
            operation = self._operation(node, dependent) if isinstance(value, Tensor) else None
            if operation is None:
                unsupported.append(self._describe(node))
            else:
                self.operations[node] = operation
        if unsupported:
            raise UnsupportedLayerError(
                "Expected a model of layers that LRP has a rule for, but got "
                f"{', '.join(unsupported)}. Use another explainer, such as InputTimesGradient."
            )
        sink: Any = nodes[-1].args[0]
        self.sink = sink
        return self.values[sink] if isinstance(sink, fx.Node) else sink  # type: ignore[no-any-return]

    def _run(self, node: fx.Node, given: dict[fx.Node, Any]) -> Any:
        def value(other: fx.Node) -> Any:
            return given[other] if other in given else self.values[other]

        args, kwargs = fx.node.map_arg((node.args, node.kwargs), value)
        # Nothing may be overwritten: every value is read again on the way back.
        if kwargs.get("inplace"):
            kwargs = {**kwargs, "inplace": False}
        if node.op == "call_method":
            return getattr(args[0], call_name(node.target))(*args[1:], **kwargs)
        return run_node(node, self.root, args, kwargs, with_hooks=True)

    def _operation(self, node: fx.Node, dependent: set[fx.Node]) -> Operation | None:
        parents = tuple(parent for parent in node.all_input_nodes if parent in dependent)

        def function(*values: Tensor) -> Tensor:
            return self._run(node, dict(zip(parents, values, strict=True)))  # type: ignore[no-any-return]

        if node.op != "call_module":
            kind = _kind_of_call(node, dependent)
            return None if kind is None else Operation(kind, parents, function)
        layer = self.root.get_submodule(str(node.target))
        kinds = [kind for kind, types in _MODULES.items() if isinstance(layer, types)]
        if not kinds or (isinstance(layer, _NORMS) and layer.running_mean is None):
            return None
        before = self.operations.get(parents[0])
        if isinstance(layer, _NORMS) and before is not None and self._folds(parents[0], before):
            return Operation(Kind.AFFINE, before.parents, function, before.layer, layer)
        return Operation(kinds[0], parents, function, layer)

    def _folds(self, node: fx.Node, operation: Operation) -> bool:
        is_last = len(node.users) == 1 and operation.norm is None
        has_channels = not isinstance(operation.layer, nn.Linear) or self.values[node].ndim == 2
        return operation.kind is Kind.AFFINE and is_last and has_channels

    def _describe(self, node: fx.Node) -> str:
        if node.op == "call_module":
            name = type(self.root.get_submodule(str(node.target))).__name__
            return f"`{module_path(node.target)}` ({name})"
        path = calling_module(node)
        return f"{call_name(node.target)}() in {f'`{path}`' if path else 'the model'}"


def _is_leaf(module: nn.Module) -> bool:
    """Whether LRP has a rule for a user's subclass, since it runs as its parent does."""
    return any(runs_as(module, kind) for kinds in _MODULES.values() for kind in kinds)


def _kind_of_call(node: fx.Node, dependent: set[fx.Node]) -> Kind | None:
    name = call_name(node.target)
    name = _SAME_AS.get(name, name)
    if name not in _ARITHMETIC:
        return _KINDS.get(name)
    operands = [arg for arg in node.args[:2] if arg in dependent]
    if node.kwargs or not operands:
        return None
    if len(operands) == 1:
        is_divisor = name == "truediv" and node.args[1] is operands[0]
        return None if is_divisor else Kind.SCALE
    return Kind.SUM if name in ("add", "sub") and operands[0] is not operands[1] else None


def _holds_features(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(_holds_features(part) for part in value)
    return isinstance(value, Tensor) and value.is_floating_point()
