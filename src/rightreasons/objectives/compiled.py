"""The passes of training steps in compiled graphs, where `torch.func` takes the input gradients.

``torch.compile`` cannot differentiate what `torch.autograd.grad` gives inside of it. A gradient
that `torch.func` takes inside becomes a part of the graph, which the compiler can differentiate
for the weights. Terms stay formulas of a probe: `TracedProbe` is the probe of such a graph.

What cannot be compiled runs eagerly, with one sentence in the log. A compiled step is used only
after it gave the numbers of an eager one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import grad, vjp

from rightreasons.core.model_modes import (
    depends_on_mode,
    hold_model,
    innermost,
    out_of_place,
    statistics_of,
    test_time_mode,
    twice_differentiable,
    with_statistics,
)
from rightreasons.errors import InvalidBatchError
from rightreasons.objectives.auto_weight import ControlledWeight
from rightreasons.objectives.memory import Measured, OwnPasses, measure_terms
from rightreasons.types import Batch, Target

if TYPE_CHECKING:
    from rightreasons.objectives.objective import Objective, Term

__all__ = ["CompiledPasses", "TracedProbe"]

logger = logging.getLogger("rightreasons")

BACKEND = "inductor"
OPTIONS: dict[str, Any] = {"fallback_random": True, "reorder_for_peak_memory": False}
"""The first lets a graph draw the numbers of an eager step. The second leaves out a pass of PyTorch
2.13 that moves reads of a max pooling's gradient before the writes; its gradients are wrong."""
CPU_OPTIONS: dict[str, Any] = {**OPTIONS, "layout_optimization": False}
"""With channels last, the loops that the compiler writes around GroupNorm are slow."""
FROZEN = "set frozen_statistics (--frozen-statistics)"
TENSOR_FLOAT = 2.0**-11
"""Rounding of products on a GPU, which may leave out digits of single precision."""


class TracedProbe:
    """What a compiled formula sees in place of a `Probe`: the same names for the same numbers.

    It has the gradients and passes that formulas of `Term.compiles` read, and nothing else. Nothing
    is drawn, checked or switched here: a graph holds tensors alone.

    Args:
        model: Gives logits ``(N, K)``; its mode is set outside of the graph.
        batch: The samples.
        features: Where the model is probed, ``(N, *S)``.
        needs_gradient: Whether `gradient` will be read.
    """

    create_graph = False  # the compiler differentiates the graph, not autograd
    depends_on_mode = False  # see `CompiledPasses`: terms on test time have a graph of their own

    def __init__(
        self, model: nn.Module, batch: Batch, features: Tensor, *, needs_gradient: bool
    ) -> None:
        self.model, self.batch, self.features = model, batch, features
        self._results: list[tuple[Hashable, Any]] = []

        def forward(x: Tensor) -> Tensor:
            logits: Tensor = model(x)
            return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits

        if needs_gradient:
            self.logits, self._pull_back = vjp(forward, features)[:2]
        else:
            self.logits = forward(features)

    @property
    def mask(self) -> Tensor:
        """The batch's mask."""
        if self.batch.mask is None:
            raise InvalidBatchError("Expected a batch with a `mask`, but got none.")
        return self.batch.mask

    @property
    def masked(self) -> TracedProbe:
        """The probe itself: all features take the place of the masked ones."""
        return self

    def gradient(self, target: Target) -> Tensor:
        """The gradient of ``target`` for each sample, shaped as `features`; computed once."""

        def total(logits: Tensor) -> Tensor:
            return target(logits, self.batch.y).sum()

        gradient: Tensor = self.once(target, lambda: self._pull_back(grad(total)(self.logits))[0])
        return gradient

    def each_at(
        self, copies: Tensor, function: Callable[[TracedProbe], Tensor], *, create_graph: bool
    ) -> Tensor:
        """Evaluate ``function`` at altered copies of the features ``(K, N, *S)``, one by one."""
        del create_graph
        moved = [TracedProbe(self.model, self.batch, x, needs_gradient=True) for x in copies]
        return torch.stack([function(one) for one in moved])

    def once(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """The result of ``compute``, once for equal keys."""
        for known, result in self._results:  # the compiler follows no dictionary with such keys
            if type(known) is type(key) and known == key:
                return result
        result = compute()
        self._results.append((key, result))
        return result


class CompiledPasses:
    """Measures the terms of an objective in compiled graphs, or eagerly where that fails.

    The first batch is measured in both ways. Where the numbers differ by more than rounding, or
    something cannot be compiled, all steps run eagerly, and a warning says why. Batches of another
    size and other models run eagerly, too, so that nothing is compiled twice.

    Args:
        num_rows: Samples in the batches that are compiled.
        backend: Compiler: a name or a function, as `torch.compile` takes it.

    Example:
        >>> from rightreasons.objectives import Density, CrossEntropy
        >>> objective = CrossEntropy() + 0.1 * Density()
        >>> objective.compiled = CompiledPasses(num_rows=64)
    """

    def __init__(self, *, num_rows: int, backend: str | Callable[..., Any] = BACKEND) -> None:
        self.num_rows = num_rows
        self.backend = backend
        self.refusal: str | None = None
        """Why steps run eagerly, in words; None if they do not."""
        self._kind: list[Any] = []
        self._model: nn.Module | None = None
        self._functions: dict[str, Callable[[Batch], Measured]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledPasses:
        """A copy of an objective compiles for itself: graphs belong to a model."""
        return CompiledPasses(num_rows=self.num_rows, backend=self.backend)

    def measure(
        self,
        objective: Objective,
        model: nn.Module,
        batch: Batch,
        stops: Sequence[Tensor] | None,
    ) -> Measured:
        """Evaluate every term, as `measure_terms` does."""
        if self._model is None and len(batch) == self.num_rows:
            self._model, self._kind = model, _kind(batch)
            reason = _refusal(objective, model, batch)
            self._note(reason or self._try(objective, model, batch, stops))
        is_known = model is self._model and _kind(batch) == self._kind
        if is_known and self.refusal is None and self._has_classes(batch):
            try:
                return self._measure(objective, model, batch)
            except Exception as error:  # such as one of compiling again; training must go on
                self._note(_describe(error))
        return measure_terms(objective, model, batch, stops)

    def _note(self, reason: str | None) -> None:
        """Run all further steps eagerly if there is a reason, and say it."""
        if reason is not None:
            self.refusal, self._functions = reason, {}
            logger.warning("Steps are not compiled, they run eagerly: %s.", reason)

    def _has_classes(self, batch: Batch) -> bool:
        """Whether all labels are outputs of the model; an eager pass raises for others."""
        return batch.y.device.type != "cpu" or int(batch.y.max()) < self._classes

    def _try(
        self,
        objective: Objective,
        model: nn.Module,
        batch: Batch,
        stops: Sequence[Tensor] | None,
    ) -> str | None:
        """Compile, and compare with an eager step; why that failed, None if it did not."""
        with _undone(model, batch.x):
            parts, logits = measure_terms(objective, model, batch, stops)
            expected = _gradients(parts, model)
            self._classes = logits.shape[1]
        began = time.monotonic()
        try:
            # Norms of gradients are logged, which reads a graph several times.
            with _undone(model, batch.x), torch._functorch.config.patch(donated_buffer=False):
                parts, _ = self._measure(objective, model, batch)
                found = _gradients(parts, model)
        except Exception as error:  # a compiler may raise anything
            return _describe(error)
        logger.info("The step was compiled in %.0f s.", time.monotonic() - began)
        return _difference(found, expected, _rounding(batch.x))

    def _measure(self, objective: Objective, model: nn.Module, batch: Batch) -> Measured:
        """The passes of `measure_terms` in their order, those at test time in a graph apart."""
        terms: dict[str, Term] = dict(objective.terms.items())  # type: ignore[arg-type]
        penalties = {name: term for name, term in terms.items() if term.needs_gradient}
        tasks = {name: term for name, term in terms.items() if name not in penalties}
        owns = any(isinstance(term, OwnPasses) for term in penalties.values())
        frozen, all_own = objective.frozen_statistics, _all_own(penalties)
        with ExitStack() as contexts:
            contexts.enter_context(hold_model(model))
            if penalties:
                contexts.enter_context(twice_differentiable(model))
                contexts.enter_context(out_of_place(model))
            if not penalties or not depends_on_mode(model) or not (frozen or owns):
                means, logits = self._run("all terms", terms, model, batch)
            elif all_own:
                statistics = statistics_of(model) if frozen else []
                means, logits = self._run("tasks", tasks, model, batch)
                with with_statistics(statistics), test_time_mode(model):
                    means = {**means, **self._run("penalties", penalties, model, batch)[0]}
            else:
                with test_time_mode(model):
                    read, _ = self._run("penalties", penalties, model, batch)
                means, logits = self._run("tasks", tasks, model, batch)
                means = {**means, **read}
        return {name: means[name] for name in terms}, logits.detach()

    def _run(
        self, name: str, terms: Mapping[str, Term], model: nn.Module, batch: Batch
    ) -> Measured:
        if name not in self._functions:
            needs_gradient = any(term.needs_gradient for term in terms.values())

            def measure(batch: Batch) -> Measured:
                probe = TracedProbe(model, batch, batch.x, needs_gradient=needs_gradient)
                return {name: term(probe).mean() for name, term in terms.items()}, probe.logits

            self._functions[name] = self._compile(measure, batch)
        return self._functions[name](batch)

    def _compile(
        self, measure: Callable[[Batch], Measured], batch: Batch
    ) -> Callable[[Batch], Measured]:
        # The compiler keeps its graphs by the code, few for each: every training has its own code.
        code, names = measure.__code__.replace(), measure.__globals__
        own = FunctionType(code, names, closure=measure.__closure__)
        is_cpu = batch.x.device.type == "cpu"
        options = None if self.backend != BACKEND else CPU_OPTIONS if is_cpu else OPTIONS
        compiled: Callable[[Batch], Measured] = torch.compile(
            own, fullgraph=True, dynamic=False, backend=self.backend, options=options
        )
        return compiled


def _describe(error: Exception) -> str:
    words = " ".join(str(error).strip().splitlines()[:2])  # the first may say who, not what
    return f"PyTorch cannot compile this ({type(error).__name__}: {words[:200].rstrip('.')})"


def _all_own(penalties: Mapping[str, Term]) -> bool:
    return all(isinstance(term, OwnPasses) for term in penalties.values())


def _kind(batch: Batch) -> list[Any]:
    """What a graph takes for granted about a batch."""
    tensors = [one for one in (batch.x, batch.mask) if one is not None]
    return [batch.x.requires_grad, *((one.shape, one.dtype, one.device) for one in tensors)]


def _refusal(objective: Objective, model: nn.Module, batch: Batch) -> str | None:
    """Why an objective cannot be compiled for a model; None if it may be."""
    terms: dict[str, Term] = dict(objective.terms.items())  # type: ignore[arg-type]
    penalties = {name: term for name, term in terms.items() if term.needs_gradient}
    others = [f"`{name}`" for name, term in terms.items() if not term.compiles]
    owns = any(isinstance(term, OwnPasses) for term in penalties.values())
    in_train_mode = depends_on_mode(model) and not objective.frozen_statistics
    if others:
        return f"{' and '.join(others)} cannot be compiled"
    if any(isinstance(one, ControlledWeight) for one in objective.auto_weights.values()):
        return "a controlled weight differentiates each term by itself"
    if innermost(model) is not model:
        return "the model is wrapped for several processes or devices"
    if not batch.x.is_floating_point() or batch.inputs is not None:
        return "only images and tables can be compiled, not texts"
    if batch.x.requires_grad:
        return "the input asks for its gradient"
    if in_train_mode and not _all_own(penalties):
        if statistics_of(model):
            return f"the gradient would change statistics of BatchNorm; {FROZEN}"
        if owns:
            return f"some terms see the model at test time and others do not; {FROZEN}"
    if owns and objective.max_rows is not None and objective.max_rows < len(batch):
        return "`max_rows` cuts the passes of a batch"
    return None


@contextmanager
def _undone(model: nn.Module, x: Tensor) -> Iterator[None]:
    """Restore the model's statistics and the random state afterwards."""
    before = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        with torch.random.fork_rng([x.device] if x.is_cuda else []):
            yield
    finally:
        with torch.no_grad():
            for buffer, values in before:
                buffer.copy_(values)


def _gradients(parts: Mapping[str, Tensor], model: nn.Module) -> dict[str, list[Tensor]]:
    """The value of each part and its gradients for the weights, in double precision."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    found = {}
    for name, part in parts.items():
        gradients = torch.autograd.grad(part, weights, retain_graph=True, materialize_grads=True)
        found[name] = [one.detach().double() for one in (part, *gradients)]
    return found


def _rounding(x: Tensor) -> float:
    """The rounding of a product under the current precision, relative to its size."""
    kind = x.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
    error = torch.finfo(dtype).eps
    return max(error, TENSOR_FLOAT) if x.is_cuda else error


def _difference(
    found: Mapping[str, list[Tensor]], expected: Mapping[str, list[Tensor]], rounding: float
) -> str | None:
    """How a compiled step differs from an eager one; None if by rounding alone.

    Rounding grows in a second derivative. Its cube root is allowed, relative to each part. Where
    a part is small beside the others, its square root more.

    Args:
        found: Value and gradients of each part from the compiled step.
        expected: The same from the eager step.
        rounding: Relative error of one product.
    """
    sizes = {name: (_size(one[:1]), _size(one[1:])) for name, one in expected.items()}
    largest = [max(size[number] for size in sizes.values()) for number in range(2)]
    for name, size in sizes.items():
        gaps = [new - old for new, old in zip(found[name], expected[name], strict=True)]
        for number, part in enumerate((gaps[:1], gaps[1:])):
            allowed = rounding ** (1 / 3) * size[number] + rounding**0.5 * largest[number]
            if not _size(part) <= allowed:
                what = ("the value", "the gradient")[number]
                return (
                    f"{what} of `{name}` was off by {_size(part):.2g}, where the eager one has the "
                    f"size {size[number]:.2g}"
                )
    return None


def _size(tensors: Sequence[Tensor]) -> float:
    return float(torch.stack([one.square().sum() for one in tensors]).sum().sqrt())
