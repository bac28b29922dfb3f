"""Exchanging what a model is for, with the penalties as they were."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rightreasons.core.model_modes import (
    Statistics,
    depends_on_mode,
    statistics_of,
    with_statistics,
)
from rightreasons.core.second_order import innermost, refuse_wrappers
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.objectives.auto_weight import AutoWeight
from rightreasons.objectives.memory import settled
from rightreasons.probe.probe import Need, Probe, strongest_need
from rightreasons.types import Batch

__all__ = [
    "Loss",
    "Objective",
    "Term",
    "Weight",
    "frugal_means",
    "stopping_at",
    "term_means",
    "with_task",
]


@dataclass(frozen=True)
class Loss:
    """What an objective gives for a batch.

    Args:
        total: The weighted sum, to differentiate; a scalar. Where the objective reads input
            gradients, ``total.backward()`` stops at the parameters: the gradient of the input
            itself, which nobody reads, is not paid for.
        parts: Each term's mean over the samples, unweighted, with its graph.
        weights: What each part was multiplied with.
        logits: The model's, detached ``(N, K)``.
        parameters: The model's trainable parameters.
        stops: Where ``total.backward()`` stops; None is at every leaf of the graph.
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


def stopping_at(total: Tensor, stops: Sequence[Tensor] | None) -> Tensor:
    """The same scalar, whose ``backward()`` goes to ``stops`` only, unless told otherwise.

    What is computed from it is an ordinary tensor again.
    """
    if not stops:
        return total
    stopping = total.as_subclass(_Stopping)
    stopping.stops = list(stops)
    return stopping


class _Stopping(Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    stops: list[Tensor]

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Sequence[Tensor] | None = None,
    ) -> None:
        stops = self.stops if inputs is None else inputs
        torch.autograd.backward(self, gradient, retain_graph, create_graph, inputs=stops)


def frugal_means(
    terms: Mapping[str, Term], probe: Probe, stops: list[Tensor] | None, before: Statistics
) -> dict[str, Tensor]:
    """Means of all terms; where penalties have passes of their own, the task's graph goes first.

    These passes see the statistics from before the task's pass moved them, if any are given.
    """
    penalties = {name: one for name, one in terms.items() if one.needs_gradient}
    first = {name: one for name, one in terms.items() if name not in penalties}
    scaled = torch.is_autocast_enabled(probe.logits.device.type)  # small gradients would vanish
    with with_statistics(before):
        leaves = [one.leaves(probe) for one in penalties.values()] if probe.create_graph else []
    means = term_means(first, probe)
    if leaves and all(leaves) and stops is not None and not scaled:
        means = settled(means, stops)
        probe.release_graph()  # the last that holds it
    with with_statistics(before):
        return {**means, **term_means(penalties, probe)}


def term_means(terms: Mapping[str, Term], probe: Probe) -> dict[str, Tensor]:
    """Of each term's losses over the samples of a pass."""
    means = {}
    for name, term in terms.items():
        losses = term(probe)
        if losses.shape != (len(probe.batch),):
            raise InvalidSettingError(
                f"Expected the term {name!r} to give one loss a sample, ({len(probe.batch)},), but "
                f"got shape {tuple(losses.shape)}."
            )
        means[name] = losses.mean()
    return means


Weight = float | Literal["auto"]
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class _Summand(nn.Module, ABC):
    """What can be added and scaled: a term, or a sum of them."""

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

    A term reads the `Probe`, and nothing else; it never touches parameters or the optimizer.
    Settings go to the constructor, by keyword.
    """

    layers: tuple[str, ...] = ()
    """Names of layers whose activations it reads."""
    needs_gradient: Need = False
    """Whether it reads input gradients; ``"inside"`` if those of masked features alone."""
    is_task: bool = False
    """Whether it is what the model is for, against which penalties are weighed."""
    at_test_time: bool = False
    """Whether its gradients are of the model as at test time, whatever mode it is in."""
    grown: float = 1.0
    """By how much the losses of the last pass were multiplied, while it grows to its weight."""

    @abstractmethod
    def forward(self, probe: Probe) -> Tensor:
        """The loss of each sample, ``(N,)``."""

    def layers_in(self, model: nn.Module, x: Tensor) -> tuple[str, ...]:
        """Names of the layers it reads in this model: `layers`, unless it looks for them."""
        del model, x
        return self.layers

    def leaves(self, probe: Probe) -> bool:
        """Take what the term needs of the graph of the shared pass, if it can then do without.

        Returns:
            Whether the graph may be freed before ``forward``: then the memory a penalty needs
            comes in the place of the task's, not on top of it.
        """
        del probe
        return False

    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        """Look at the training data before the first step.

        Args:
            data: What the model will be trained on; its card says what values are valid.
            num_passes: How many batches training has.
        """
        del data, num_passes

    @property
    def name(self) -> str:
        """The class's name in snake case."""
        return _WORD_ENDS.sub("_", type(self).__name__).lower()

    def as_objective(self) -> Objective:
        """The objective that has this term alone, with weight 1."""
        return Objective([(self.name, self, 1.0)])


class Objective(_Summand):
    r"""A weighted sum of terms: :math:`\sum_t w_t \frac1N \sum_n \mathrm{term}_t(x_n)`.

    Terms are averaged over samples, so the value does not depend on the batch size. Build one with
    ``+`` and ``*``; ``"auto" * term`` lets the weight set itself (see `AutoWeight`). Everything a
    term remembers, and every automatic weight, is in ``state_dict()``.

    Args:
        terms: Names, terms and weights. A name that occurs twice gets a number.
        frozen_statistics: Let terms that read gradients see the model as at test time, with
            normalisation statistics and dropout switched off. Then a gradient is one sample's own
            also in a net with BatchNorm, for one more pass; without such layers nothing changes.
        max_rows: The most rows a stacked pass of perturbed copies may have; None is no ceiling.

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

    def __init__(
        self,
        terms: list[tuple[str, Term, Weight | AutoWeight]],
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
        self._weights: dict[str, float | AutoWeight] = {}
        for name, term, weight in terms:
            unique = _unique(name, self.terms)
            self.terms[unique] = term
            if weight == "auto":
                weight = AutoWeight()
            if isinstance(weight, AutoWeight):
                self.auto_weights[unique] = weight
            self._weights[unique] = (
                weight if isinstance(weight, AutoWeight) else _checked_weight(weight)
            )

    def forward(self, model: nn.Module, batch: Batch) -> Loss:
        """Evaluate every term on one shared pass of ``model`` over ``batch``."""
        if not len(batch):
            raise InvalidBatchError("Expected a batch with at least one sample, but got none.")
        terms: dict[str, Term] = dict(self.terms.items())  # type: ignore[arg-type]
        needs_gradient = strongest_need(term.needs_gradient for term in terms.values())
        mixes = any(term.needs_gradient and not term.at_test_time for term in terms.values())
        apart = mixes and self.frozen_statistics and depends_on_mode(model)
        settings: dict[str, Any] = {
            "create_graph": torch.is_grad_enabled(),
            "layers": _layers(terms, model, batch.x),
            "max_rows": self.max_rows,
        }
        parameters = tuple(weight for weight in model.parameters() if weight.requires_grad)
        own = [weight for weight in self.parameters() if weight.requires_grad]
        prunes = bool(needs_gradient) and not batch.x.requires_grad
        stops: list[Tensor] | None = [*parameters, *own] if prunes else None
        if needs_gradient:
            refuse_wrappers(model)
        if apart:  # first, since the task's pass moves the statistics
            guided = Probe.at_test_time(model, batch, needs_gradient=needs_gradient, **settings)
            measured = term_means(
                {n: one for n, one in terms.items() if one.needs_gradient}, guided
            )
            probe = Probe(model, batch, **settings)
            measured |= term_means({n: one for n, one in terms.items() if n not in measured}, probe)
        else:
            before = statistics_of(model) if self.frozen_statistics else []
            probe = Probe(model, batch, needs_gradient=needs_gradient, **settings)
            measured = frugal_means(terms, probe, stops, before)
        parts = {name: measured[name] for name in terms}
        self._warm_up(parts, parameters, len(batch))
        weights = self.weights
        total = torch.stack([weights[name] * part for name, part in parts.items()]).sum()
        logits = probe.logits.detach()
        return Loss(stopping_at(total, stops), parts, weights, logits, parameters, stops)

    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        """Let every term look at the training data before the first step; `fit` does."""
        for term in self.terms.values():
            term.prepare(data, num_passes=num_passes)  # type: ignore[operator]

    @property
    def weights(self) -> dict[str, float]:
        """Each term's weight, in order; automatic ones as they stand."""
        return {
            name: weight.value if isinstance(weight, AutoWeight) else weight
            for name, weight in self._weights.items()
        }

    @property
    def task(self) -> str:
        """The name of the task's term: the first that says so, or else the first."""
        tasks = [name for name, term in self.terms.items() if term.is_task]
        return tasks[0] if tasks else next(iter(self.terms))

    @property
    def weights_asked_for(self) -> dict[str, Weight]:
        """Each term's weight as it was asked for: a number or ``"auto"``."""
        return {
            name: "auto" if isinstance(weight, AutoWeight) else weight
            for name, weight in self._weights.items()
        }

    def with_settings(
        self, *, frozen_statistics: bool | None = None, max_rows: int | None = None
    ) -> Objective:
        """The same terms with other settings; what is None stays."""
        frozen = self.frozen_statistics if frozen_statistics is None else frozen_statistics
        rows = self.max_rows if max_rows is None else max_rows
        return Objective(self._summands(), frozen_statistics=frozen, max_rows=rows)

    def as_objective(self) -> Objective:
        """Itself."""
        return self

    def _warm_up(
        self, parts: dict[str, Tensor], parameters: tuple[Tensor, ...], num_samples: int
    ) -> None:
        waiting = {n: weight for n, weight in self.auto_weights.items() if not weight.settled}
        if not waiting or not self.training or not torch.is_grad_enabled():
            return
        fixed = {n: w for n, w in self._weights.items() if not isinstance(w, AutoWeight) and w}
        if not fixed:
            raise InvalidSettingError(
                "Expected a term with a fixed weight to measure the automatic ones against, but "
                f"all of {', '.join(parts)} are automatic. Add CrossEntropy()."
            )
        task = self.task if self.task in fixed else next(iter(fixed))
        pull = fixed[task] * parts[task]
        for name, weight in waiting.items():
            settings = {"num_samples": num_samples, "grown": self.terms[name].grown}
            weight.observe(pull, parts[name], parameters, **settings)  # type: ignore[operator]

    def _summands(self) -> list[tuple[str, Term, Weight | AutoWeight]]:
        return [(name, self.terms[name], self._weights[name]) for name in self.terms]  # type: ignore[misc]


def _layers(terms: dict[str, Term], model: nn.Module, x: Tensor) -> list[str]:
    core = innermost(model)
    return list(dict.fromkeys(name for one in terms.values() for name in one.layers_in(core, x)))


def _sum(left: Objective, right: Objective) -> Objective:
    ceilings = [rows for rows in (left.max_rows, right.max_rows) if rows is not None]
    return Objective(
        left._summands() + right._summands(),
        frozen_statistics=left.frozen_statistics or right.frozen_statistics,
        max_rows=min(ceilings, default=None),
    )


def _scaled(objective: Objective, weight: Weight) -> Objective:
    def scaled(old: Weight | AutoWeight) -> Weight | AutoWeight:
        if weight == "auto":
            return old if isinstance(old, AutoWeight) else AutoWeight(ratio=_checked_weight(old))
        if isinstance(old, AutoWeight):
            return AutoWeight(ratio=old.ratio * _checked_weight(weight), steps=old.steps)
        return float(old) * _checked_weight(weight)

    return Objective(
        [(name, term, scaled(old)) for name, term, old in objective._summands()],
        frozen_statistics=objective.frozen_statistics,
        max_rows=objective.max_rows,
    )


def _checked_weight(weight: object) -> float:
    if (
        isinstance(weight, bool)
        or not isinstance(weight, int | float)
        or not 0 <= weight < float("inf")
    ):
        raise InvalidSettingError(
            f'Expected `weight` to be a finite number of at least 0, or "auto", but got {weight!r}.'
        )
    return float(weight)


def _unique(name: str, taken: nn.ModuleDict) -> str:
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name}_{number}"
    return unique


def with_task(objective: Objective, term: Term) -> Objective:
    """The same penalties with another task: ``term`` in the place of what was the task.

    Example:
        >>> from rightreasons.objectives import CVAR, CrossEntropy, WeightDecay
        >>> with_task(CrossEntropy() + 0.1 * WeightDecay(), CVAR()).weights
        {'cvar': 1.0, 'weight_decay': 0.1}
    """
    penalties = []
    for name, one in objective.terms.items():
        if isinstance(one, Term) and not one.is_task:
            settles = name in objective.auto_weights
            weight = objective.auto_weights[name] if settles else objective.weights[name]
            penalties.append((name, one, weight))
    return Objective(
        [(term.name, term, 1.0), *penalties],  # type: ignore[list-item]
        frozen_statistics=objective.frozen_statistics,
        max_rows=objective.max_rows,
    )
