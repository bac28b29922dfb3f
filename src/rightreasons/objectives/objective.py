"""Terms and objectives: a loss for each sample, and the weighted sum that a model is trained on."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from rightreasons.core.checks import passes_settings_on, settings_of
from rightreasons.core.model_modes import refuse_wrappers
from rightreasons.datasets.dataset import Dataset
from rightreasons.datasets.replacement import Replacement
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.objectives.auto_weight import (
    AutoWeight,
    ControlledWeight,
    OwnWeight,
    Weight,
    cap_penalties,
    control_weights,
    make_weight,
    name_weight,
    scale_weight,
    settings_of_pass,
)
from rightreasons.objectives.compiled import CompiledPasses
from rightreasons.objectives.memory import Measured, measure_terms, restrict_backward
from rightreasons.probe.probe import Need, Probe
from rightreasons.types import Batch

__all__ = ["Loss", "Objective", "Term", "Weight", "with_task"]

_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True)
class Loss:
    """The value of an objective for a batch.

    Args:
        total: The weighted sum, a scalar with its graph. Where the objective reads input
            gradients, ``total.backward()`` computes gradients of the parameters alone, not of
            the input.
        parts: Each term's mean over the samples, unweighted, with its graph.
        weights: The factor of each part.
        logits: The model's logits for the samples ``(N, K)``, detached.
        parameters: The model's trainable parameters.
        stops: Leaves at which ``total.backward()`` stops; None is every leaf of the graph.
    """

    total: Tensor
    parts: dict[str, Tensor]
    weights: dict[str, float]
    logits: Tensor
    parameters: tuple[Tensor, ...] = field(repr=False)
    stops: list[Tensor] | None = field(default=None, repr=False)

    def backward(self) -> None:
        """Add the gradient of ``total`` to the parameters' ``.grad``: ``total.backward()``."""
        self.total.backward()  # type: ignore[no-untyped-call]

    def as_dict(self) -> dict[str, Tensor | float]:
        """``loss`` with its graph, ``parts/NAME`` without one, and ``weights/NAME``.

        A `LightningModule` may return it from ``training_step`` and give it to ``log_dict``.

        Example:
            >>> from rightreasons.objectives import CrossEntropy
            >>> batch = Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
            >>> sorted(CrossEntropy().as_objective()(nn.Linear(3, 2), batch).as_dict())
            ['loss', 'parts/cross_entropy', 'weights/cross_entropy']
        """
        parts = {f"parts/{name}": part.detach() for name, part in self.parts.items()}
        weights = {f"weights/{name}": weight for name, weight in self.weights.items()}
        return {"loss": self.total, **parts, **weights}


class _Summand(nn.Module, ABC):
    """A term or an objective: both can be added and scaled."""

    @abstractmethod
    def as_objective(self) -> Objective: ...

    def __add__(self, other: Term | Objective) -> Objective:
        if not isinstance(other, _Summand):
            return NotImplemented
        return _sum(self.as_objective(), other.as_objective())

    def __radd__(self, other: object) -> Objective:
        return self.as_objective() if other == 0 else NotImplemented  # so that sum() works

    def __mul__(self, weight: Weight) -> Objective:
        return _scaled(self.as_objective(), weight)

    def __rmul__(self, weight: Weight) -> Objective:
        return _scaled(self.as_objective(), weight)


class Term(_Summand):
    """One summand of an objective: a formula that gives each sample a loss.

    A term reads the `Probe` and nothing else. It never changes parameters or the optimizer.
    Settings go to the constructor, by keyword.

    A subclass defines ``forward`` and, where it needs them, the attributes below. Two mix-ins serve
    single families: `OwnPasses` for terms with passes of their own, `Growing` for terms that grow
    to their weight.
    """

    needs_gradient: Need = False
    """Whether the term reads input gradients; ``"inside"`` for those of masked features alone."""
    is_task: bool = False
    """Whether the term is the task, against which penalties are weighed."""
    layers: tuple[str, ...] = ()
    """Names of layers whose activations the term reads."""
    compiles: bool = False
    """Whether the formula can be compiled: no state, and nothing that a `TracedProbe` lacks."""

    def __init_subclass__(cls, **settings: Any) -> None:
        """Show the settings that a family passes to its base in the signature, for `help`."""
        super().__init_subclass__(**settings)
        constructor = vars(cls).get("__init__")
        if constructor is not None:
            signature = inspect.signature(constructor)
            parameters = list(signature.parameters.values())[1:]  # without `self`
            if passes_settings_on(constructor):
                parameters = list(settings_of(cls).values())
            cls.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]

    @abstractmethod
    def forward(self, probe: Probe) -> Tensor:
        """The loss of each sample, ``(N,)``."""

    def layers_in(self, model: nn.Module, x: Tensor) -> tuple[str, ...]:
        """Names of the layers that the term reads in this model; `layers` by default."""
        del model, x
        return self.layers

    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        """Look at the training data before the first step.

        Args:
            data: The training data; its card has the range of valid values.
            num_passes: Number of batches in the whole training.
        """
        del data, num_passes

    def begin_epoch(self, epoch: int) -> None:
        """Take note of the epoch, for draws that change with it; `fit` calls it."""
        del epoch

    def alter(self, batch: Batch) -> Batch:
        """Change the batch before the pass that all terms share; the same batch by default.

        A term may append copies. The samples themselves, or what replaces them, come first.
        """
        return batch

    @property
    def name(self) -> str:
        """The class's name in snake case."""
        return snake_case(type(self).__name__)

    def as_objective(self) -> Objective:
        """An objective of this term alone, with weight 1."""
        return Objective([(self.name, self, 1.0)])


class Objective(_Summand):
    r"""A weighted sum of terms: :math:`\sum_t w_t \frac1N \sum_n \mathrm{term}_t(x_n)`.

    Terms are averaged over samples, so the value does not depend on the batch size. Build one with
    ``+`` and ``*``. ``"auto" * term`` chooses the weight by the gradients (see `AutoWeight`);
    ``"controlled" * term`` by what the model still reads (see `ControlledWeight`). The state of
    terms and such weights is in ``state_dict()``.

    Args:
        terms: Names, terms and weights. A name that occurs twice gets a number.
        frozen_statistics: Show terms that read gradients the model as at test time: BatchNorm uses
            its running statistics and dropout drops nothing. A gradient then depends on its own
            sample alone, at the cost of one more forward and backward pass. Nets without such
            layers do not change.
        max_rows: Most rows in one stacked pass of perturbed copies; None fits them into a quarter
            of the memory. It changes values by rounding alone.

    Example:
        >>> from rightreasons.objectives import R3, CrossEntropy
        >>> objective = CrossEntropy() + 10.0 * R3()
        >>> objective.weights
        {'cross_entropy': 1.0, 'r3': 10.0}
        >>> batch = Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]), mask=torch.ones(4, 3))
        >>> loss = objective(nn.Linear(3, 2), batch)
        >>> loss.backward(); sorted(loss.parts)
        ['cross_entropy', 'r3']
    """

    compiled: CompiledPasses | None = None
    """Takes the passes of training steps in compiled graphs; None runs them eagerly."""

    def __init__(
        self,
        terms: list[tuple[str, Term, Weight | OwnWeight]],
        *,
        frozen_statistics: bool = False,
        max_rows: int | None = None,
    ) -> None:
        super().__init__()
        if max_rows is not None and max_rows < 1:
            raise InvalidSettingError(f"Expected `max_rows` of at least 1, but got {max_rows}.")
        self.frozen_statistics = frozen_statistics
        self.max_rows = max_rows
        self.terms = nn.ModuleDict()
        self.auto_weights = nn.ModuleDict()
        self._weights: dict[str, float | OwnWeight] = {}
        self._replacement = Replacement()
        for name, term, weight in terms:
            unique = _unique(name, self.terms)
            self.terms[unique] = term
            self._weights[unique] = chosen = make_weight(weight)
            if isinstance(chosen, OwnWeight):
                self.auto_weights[unique] = chosen

    def forward(self, model: nn.Module, batch: Batch) -> Loss:
        """Evaluate every term on one shared pass of ``model`` over ``batch``."""
        if not len(batch):
            raise InvalidBatchError("Expected a batch with at least one sample, but got none.")
        size, parameters = len(batch), _trainable(model)
        for term in self.terms.values():
            batch = term.alter(batch)  # type: ignore[operator]
        differentiates_input = any(term.needs_gradient for term in self.terms.values())
        if differentiates_input:
            refuse_wrappers(model)
        # Terms make the input a leaf of the graph; nobody reads its gradient unless x asked for it.
        # A controller differentiates each part by itself: held gradients spare a second time.
        restricts = (differentiates_input or self._controllers) and not batch.x.requires_grad
        stops = [*parameters, *_trainable(self)] if restricts else None
        if self.training and torch.is_grad_enabled():
            control_weights(self._controllers, model, batch, self._replacement)
        parts, logits = self._measure(model, batch, stops)
        self._observe_gradients(parts, parameters, len(batch))
        if self._controllers and self.training and torch.is_grad_enabled():
            parts = cap_penalties(self, parts, stops, parameters, len(batch))
        weights = self.weights
        total = torch.stack([weights[name] * part for name, part in parts.items()]).sum()
        total = restrict_backward(total, stops)
        return Loss(total, parts, weights, logits[:size], parameters, stops)

    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        """Show every term the training data before the first step; `fit` does this."""
        for term in self.terms.values():
            term.prepare(data, num_passes=num_passes)  # type: ignore[operator]
        if self._controllers:
            self._replacement.prepare(data)

    def begin_epoch(self, epoch: int) -> None:
        """Tell every term the epoch, from 0; `fit` does this."""
        for term in self.terms.values():
            term.begin_epoch(epoch)  # type: ignore[operator]

    @property
    def weights(self) -> dict[str, float]:
        """Each term's weight, in order; automatic weights have their current value."""
        return {
            name: weight.value if isinstance(weight, OwnWeight) else weight
            for name, weight in self._weights.items()
        }

    @property
    def task(self) -> str:
        """Name of the task: the first term with ``is_task``, or else the first term."""
        tasks = [name for name, term in self.terms.items() if term.is_task]
        return tasks[0] if tasks else next(iter(self.terms))

    @property
    def weights_asked_for(self) -> dict[str, Weight]:
        """Each term's weight as it was given: a number, ``"auto"`` or ``"controlled"``."""
        return {name: name_weight(weight) for name, weight in self._weights.items()}

    def with_settings(
        self, *, frozen_statistics: bool | None = None, max_rows: int | None = None
    ) -> Objective:
        """The same terms with other settings; None keeps a setting."""
        frozen = self.frozen_statistics if frozen_statistics is None else frozen_statistics
        rows = self.max_rows if max_rows is None else max_rows
        return Objective(self._weighted_terms(), frozen_statistics=frozen, max_rows=rows)

    def as_objective(self) -> Objective:
        """The objective itself."""
        return self

    def _measure(self, model: nn.Module, batch: Batch, stops: list[Tensor] | None) -> Measured:
        """Each term's mean over the samples, and the logits."""
        if self.compiled is None or not torch.is_grad_enabled():
            return measure_terms(self, model, batch, stops)
        return self.compiled.measure(self, model, batch, stops)

    def _observe_gradients(
        self, parts: dict[str, Tensor], parameters: tuple[Tensor, ...], num_samples: int
    ) -> None:
        """Let automatic weights that are not set yet see this step's gradients."""
        waiting = {
            name: weight
            for name, weight in self.auto_weights.items()
            if isinstance(weight, AutoWeight) and not weight.settled
        }
        if not waiting or not self.training or not torch.is_grad_enabled():
            return
        fixed = {n: w for n, w in self._weights.items() if not isinstance(w, OwnWeight) and w}
        if not fixed:
            raise InvalidSettingError(
                "Expected a term with a fixed weight to measure the automatic ones against, but "
                f"all of {', '.join(parts)} are automatic. Add CrossEntropy()."
            )
        task = self.task if self.task in fixed else next(iter(fixed))
        task_loss = fixed[task] * parts[task]
        for name, weight in waiting.items():
            settings = settings_of_pass(self.terms[name], weight)
            if settings is not None:
                weight.observe(task_loss, parts[name], parameters, num_samples, **settings)

    @property
    def _controllers(self) -> list[ControlledWeight]:
        return [one for one in self.auto_weights.values() if isinstance(one, ControlledWeight)]

    def _weighted_terms(self) -> list[tuple[str, Term, Weight | OwnWeight]]:
        return [(name, self.terms[name], self._weights[name]) for name in self.terms]  # type: ignore[misc]

    def _with_terms(self, terms: list[tuple[str, Term, Weight | OwnWeight]]) -> Objective:
        settings = {"frozen_statistics": self.frozen_statistics, "max_rows": self.max_rows}
        return Objective(terms, **settings)  # type: ignore[arg-type]


def snake_case(name: str) -> str:
    """The name of a class as terms are called in an objective.

    Example:
        >>> snake_case("SmoothR3"), snake_case("IGNorm")
        ('smooth_r3', 'ig_norm')
    """
    return _WORD_ENDS.sub("_", name).lower()


def _trainable(module: nn.Module) -> tuple[Tensor, ...]:
    return tuple(weight for weight in module.parameters() if weight.requires_grad)


def _sum(left: Objective, right: Objective) -> Objective:
    ceilings = [rows for rows in (left.max_rows, right.max_rows) if rows is not None]
    return Objective(
        left._weighted_terms() + right._weighted_terms(),
        frozen_statistics=left.frozen_statistics or right.frozen_statistics,
        max_rows=min(ceilings, default=None),
    )


def _scaled(objective: Objective, weight: Weight) -> Objective:
    terms = objective._weighted_terms()
    return objective._with_terms([(n, term, scale_weight(old, weight)) for n, term, old in terms])


def _unique(name: str, taken: nn.ModuleDict) -> str:
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name}_{number}"
    return unique


def with_task(objective: Objective, term: Term) -> Objective:
    """The same penalties with ``term`` in the place of the task.

    Args:
        objective: An objective with a task and penalties.
        term: The new task, with weight 1.

    Example:
        >>> from rightreasons.objectives import CVAR, CrossEntropy, WeightDecay
        >>> with_task(CrossEntropy() + 0.1 * WeightDecay(), CVAR()).weights
        {'cvar': 1.0, 'weight_decay': 0.1}
    """
    penalties = [part for part in objective._weighted_terms() if not part[1].is_task]
    return objective._with_terms([(term.name, term, 1.0), *penalties])
