"""A model's forward pass, written down as a plan of layers for samples of one shape."""

from __future__ import annotations

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
from rightreasons.core.model_modes import test_time_mode
from rightreasons.core.tracing import (
    TracedModel,
    calling_module,
    module_path,
    run_node,
    runs_as,
    trace_graph,
)
from rightreasons.errors import InvalidBatchError, UnsupportedLayerError

__all__ = ["ModulePath", "Plan", "Step", "plan_of"]

# A subclass that has its own version of one of these does not do what its parent does.
_OVERRIDABLE = ("forward", "_conv_forward")
# Calls on an activation that do not give a tensor, and that depend on its shape alone.
_SHAPE_QUESTIONS = frozenset({"size", "dim", "ndimension", "numel", "getattr", "len"})
# Layers that hand on their input at test time.
_COPYING = (
    *(nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
    *(nn.AlphaDropout, nn.FeatureAlphaDropout),
)
_RESHAPING = (nn.Flatten, nn.Unflatten)


class ModulePath(NamedTuple):
    """The path of a layer in the model, looked up at each call."""

    path: str


class Step(NamedTuple):
    """What will be a node of the network.

    Args:
        name: The path of its module in the model, or the function that was called.
        layer: The layer, or the `ModulePath` of a module.
        inputs: Numbers of the steps whose outputs it takes; 0 is the input.
    """

    name: str
    layer: object
    inputs: tuple[int, ...]


class Plan(NamedTuple):
    """The result of tracing a model. It holds no reference to the model.

    Args:
        steps: The layers in the order of evaluation.
        constants: The calls that give tensors which do not depend on the input.
        literals: Tensors that the model's code makes, by their names in the graph.
    """

    steps: tuple[Step, ...]
    constants: tuple[fx.Node, ...]
    literals: dict[str, Tensor]


def plan_of(model: nn.Module, example: Tensor) -> Plan:
    """Trace a model in eval mode and lay out its layers.

    The model runs twice, on two and on three samples of zeros, without its hooks. That shows all
    shapes, what is overwritten in place, and whether anything depends on the size of the batch.

    Args:
        model: The model; it is left in the mode it is in.
        example: One sample ``(1, *S)``; its shape, type and device count.
    """
    with test_time_mode(model), torch.inference_mode(False), torch.no_grad():
        states = _state_versions(model)
        evaluations = [_evaluation(model, example, size) for size in (2, 3)]
        changed = [name for name, state in _state_versions(model).items() if state != states[name]]
        if changed:
            raise UnsupportedLayerError(
                "Expected a forward pass that leaves parameters and buffers alone at test time, "
                f"but it changes `{changed[0]}`. Change it only if `self.training`."
            )
        two, three = (evaluation.plan() for evaluation in evaluations)
    if repr(two.steps) != repr(three.steps):
        raise UnsupportedLayerError(
            "Expected a model that treats each sample by itself, but its layers depend on the "
            "size of the batch. Do not use `x.size(0)` but to reshape."
        )
    return two


def _evaluation(model: nn.Module, example: Tensor, size: int) -> _Evaluation:
    """Trace a model: for any shape if its code allows, else for this shape and size of a batch."""
    samples = torch.zeros_like(example).expand(size, *example.shape[1:]).clone()
    settings: dict[str, Any] = {
        "is_leaf": _is_leaf,
        "keeps_in_place": True,
        "problem": "but its forward pass depends on the values of its input or calls what cannot "
        "be traced",
        "remedy": "Bound a part of it that can be traced, or rewrite `if` and `for` on tensors.",
    }
    root = TracedModel(model)
    try:
        graph = trace_graph(root, **settings)
    except UnsupportedLayerError:
        root = TracedModel(model)  # what the first try left there is not of this graph
        graph = trace_graph(root, example=samples.clone(), **settings)
    return _Evaluation(root, graph, samples)


def _state_versions(model: nn.Module) -> dict[str, tuple[int, int]]:
    """Which tensors are the model's parameters and buffers, and how often they were written."""
    named = (*model.named_parameters(), *model.named_buffers())
    return {n: (id(t), 0 if t.is_inference() else t._version) for n, t in named}


class _Evaluation:
    """One evaluation of a traced graph, node by node, which turns calls into steps.

    Args:
        root: The traced model.
        graph: Its graph.
        samples: A batch of samples.
    """

    def __init__(self, root: TracedModel, graph: fx.Graph, samples: Tensor) -> None:
        self.root, self.graph, self.size = root, graph, len(samples)
        self.example = samples
        self.values: dict[fx.Node, Any] = {}
        # How often PyTorch had written into a value when it was made: more means overwritten.
        self.versions: dict[fx.Node, int] = {}
        # The step that gives the value of a node, for nodes that depend on the input.
        self.numbers: dict[fx.Node, int] = {}
        self.steps: list[Step] = []
        self.constants: list[fx.Node] = []
        self.refused: list[str] = []

    def plan(self) -> Plan:
        """Evaluate all nodes; raise one error about all that cannot be bounded."""
        for node in self.graph.nodes:
            if node.op == "placeholder":
                self.values[node], self.numbers[node] = self.example, 0
                self.versions[node] = self.example._version
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
        literals = {n: value for n, value in vars(self.root).items() if isinstance(value, Tensor)}
        steps = _needed_steps(self.steps, self.numbers[output])
        return Plan(steps, tuple(self.constants), literals)

    def _visit(self, node: fx.Node) -> None:
        sources = [source for source in node.all_input_nodes if source in self.numbers]
        if any(map(self._is_overwritten, sources)):
            self._refuse(node, "its input was overwritten in place before")
        value = self.values[node] = self._evaluate(node)
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
            self._add_step(node, value)
        except RefusedCall as reason:
            self.numbers[node] = 0  # any number will do, since the plan is refused in the end
            self._refuse(node, str(reason))

    def _evaluate(self, node: fx.Node) -> Any:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), self.values.__getitem__)
        try:
            return run_node(node, self.root, args, kwargs)
        except (RuntimeError, ValueError, IndexError) as error:
            raise InvalidBatchError(
                f"Expected the model to take samples of shape {tuple(self.example.shape[1:])} and "
                f"type {self.example.dtype}, but `{_name(node) or 'model'}` says: {error}"
            ) from error

    def _add_step(self, node: fx.Node, value: Tensor) -> None:
        if value.ndim < 2 or value.shape[0] != self.size:
            raise RefusedCall(f"gives {tuple(value.shape)} for a batch of {self.size}")
        if node.op == "call_module":
            layer = self._module_layer(node, value)
        else:
            layer = self._call_layer(node, value)
        inputs = tuple(self.numbers[source] for source in _sources(node) if source in self.numbers)
        if layer is None:  # a copy: readers of this node read its input
            self.numbers[node] = inputs[0]
            return
        for one in layer if isinstance(layer, list) else [layer]:
            self.steps.append(Step(_name(node), one, inputs))
            inputs = (len(self.steps),)
        self.numbers[node] = len(self.steps)

    def _module_layer(self, node: fx.Node, value: Tensor) -> object:
        module = self.root.get_submodule(str(node.target))
        if _is_any(module, _COPYING):
            return None
        if _is_any(module, _RESHAPING):
            return Reshape(tuple(value.shape[1:]))
        kind = ruled_kind(type(module))
        reason = "has no rule" if kind is None else refusal(module)
        if reason is not None:
            raise RefusedCall(reason)
        return ModulePath(_name(node))

    def _call_layer(self, node: fx.Node, value: Tensor) -> object:
        name = operation_name(node.target)
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), self._describe_argument)
        if name in COPIES:
            call = Call(name, args, kwargs, tuple(value.shape))
            if "dropout" in name and call.argument(2, "training", True):
                raise RefusedCall("draws at test time too; pass training=self.training")
            return None
        if name is None or name not in OPERATIONS:
            raise RefusedCall("has no rule")
        if "out" in kwargs:
            raise RefusedCall("writes into `out`")
        layer = OPERATIONS[name](Call(name, args, kwargs, tuple(value.shape)))
        for one in layer if isinstance(layer, list) else [layer]:
            if (reason := refusal(one)) is not None:
                raise RefusedCall(reason)
        return layer

    def _describe_argument(self, node: fx.Node) -> Any:
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
        elif self._is_overwritten(result):
            self.refused.append("the output (overwritten in place before it is returned)")

    def _is_overwritten(self, node: fx.Node) -> bool:
        """Whether PyTorch has written into a value, or what it is a view of, since it was made."""
        return node in self.versions and self.values[node]._version != self.versions[node]

    def _refuse(self, node: fx.Node, reason: str) -> None:
        kind = ""
        if node.op == "call_module":
            kind = f"{type(self.root.get_submodule(str(node.target))).__name__}: "
        home = "" if node.op == "call_module" else calling_module(node)
        where = f" in `{home}`" if home else ""
        self.refused.append(f"`{_name(node) or 'model'}`{where} ({kind}{reason})")


def _needed_steps(steps: list[Step], output: int) -> tuple[Step, ...]:
    """Only the steps that the output depends on; the one that gives it comes last."""
    needed = {output}
    for number in range(len(steps), 0, -1):
        if number in needed:
            needed.update(steps[number - 1].inputs)
    kept = sorted(needed | {0})
    new_numbers = {old: new for new, old in enumerate(kept)}
    nodes = (steps[number - 1] for number in kept if number)
    return tuple(step._replace(inputs=tuple(new_numbers[i] for i in step.inputs)) for step in nodes)


def _sources(node: fx.Node) -> list[fx.Node]:
    """The inputs in the order of the arguments; one that is given twice comes twice."""
    sources: list[fx.Node] = []
    fx.node.map_arg((node.args, node.kwargs), sources.append)
    return sources


def _name(node: fx.Node) -> str:
    if node.op in ("call_module", "get_attr"):
        return module_path(node.target)
    return operation_name(node.target) or str(getattr(node.target, "__name__", node.target))


def _is_leaf(module: nn.Module) -> bool:
    kind = ruled_kind(type(module))
    is_ruled = kind is not None and runs_as(module, kind, _OVERRIDABLE)
    return is_ruled or _is_any(module, (*_COPYING, *_RESHAPING))


def _is_any(module: nn.Module, kinds: tuple[type, ...]) -> bool:
    return any(runs_as(module, kind, _OVERRIDABLE) for kind in kinds)
