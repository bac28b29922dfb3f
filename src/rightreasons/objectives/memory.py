"""The memory of a training step: which graphs are freed early, and where ``backward`` stops.

An input-gradient penalty keeps a graph as large as the task's, or larger. No function here changes
a number; each saves memory or time:

- `measure_terms` makes the passes that the terms of an objective share.
- `mean_losses_task_first` frees the task's graph before a penalty makes passes of its own.
- `replace_graphs` holds the gradients of a scalar in place of its graph.
- `restrict_backward` ends ``backward`` at the parameters, without the gradient of the input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from typing_extensions import override

from rightreasons.core.model_modes import (
    Statistics,
    depends_on_mode,
    innermost,
    statistics_of,
    with_statistics,
)
from rightreasons.errors import InvalidSettingError
from rightreasons.probe.probe import Probe, strongest_need
from rightreasons.types import Batch

if TYPE_CHECKING:
    from rightreasons.objectives.objective import Objective, Term

__all__ = [
    "Measured",
    "OwnPasses",
    "mean_losses",
    "mean_losses_task_first",
    "measure_terms",
    "replace_graphs",
    "restrict_backward",
]


Measured = tuple[dict[str, Tensor], Tensor]
"""Each term's mean over the samples of a batch, with its graph, and the logits without one."""


class OwnPasses(ABC):
    """A mix-in for terms that take input gradients from passes of their own, as at test time.

    Such a term reads only values from the shared pass. So the shared pass may stay in train mode
    with ``frozen_statistics``, and its graph may be freed early.
    """

    @abstractmethod
    def detach_from(self, probe: Probe) -> bool:
        """Read what the term needs from the graph of the shared pass.

        Args:
            probe: The shared pass.

        Returns:
            Whether the graph may be freed before ``forward``.
        """


def measure_terms(
    objective: Objective, model: nn.Module, batch: Batch, stops: Sequence[Tensor] | None
) -> Measured:
    """Evaluate every term on one pass of the model, or on two with frozen statistics.

    Args:
        objective: The terms and their settings.
        model: Gives logits ``(N, K)``.
        batch: The samples.
        stops: Where ``backward`` will stop; None is at every leaf.
    """
    terms: dict[str, Term] = dict(objective.terms.items())  # type: ignore[arg-type]
    penalties = {name: term for name, term in terms.items() if term.needs_gradient}
    settings: dict[str, Any] = {
        "create_graph": torch.is_grad_enabled(),
        "layers": _layers(terms, model, batch.x),
        "max_rows": objective.max_rows,
    }
    need = strongest_need(term.needs_gradient for term in terms.values())
    reads_shared_pass = any(not isinstance(term, OwnPasses) for term in penalties.values())
    if objective.frozen_statistics and reads_shared_pass and depends_on_mode(model):
        # The penalties' pass comes first, since the task's pass updates the statistics.
        frozen = Probe.at_test_time(model, batch, needs_gradient=need, **settings)
        means = mean_losses(penalties, frozen)
        probe = Probe(model, batch, **settings)
        means |= mean_losses({n: term for n, term in terms.items() if n not in means}, probe)
    else:
        statistics = statistics_of(model) if objective.frozen_statistics else []
        probe = Probe(model, batch, needs_gradient=need, **settings)
        means = mean_losses_task_first(terms, probe, stops, statistics)
    return {name: means[name] for name in terms}, probe.logits.detach()


def _layers(terms: Mapping[str, Term], model: nn.Module, x: Tensor) -> list[str]:
    core = innermost(model)
    return list(dict.fromkeys(name for one in terms.values() for name in one.layers_in(core, x)))


def mean_losses(terms: Mapping[str, Term], probe: Probe) -> dict[str, Tensor]:
    """The mean of each term's losses over the samples of a pass."""
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


def mean_losses_task_first(
    terms: Mapping[str, Term],
    probe: Probe,
    stops: Sequence[Tensor] | None,
    statistics: Statistics,
) -> dict[str, Tensor]:
    """As `mean_losses`, with the graph of the pass freed before the penalties, where they allow it.

    Args:
        terms: Terms by name.
        probe: The shared pass.
        stops: Where ``backward`` will stop; None is at every leaf, which needs the graph.
        statistics: Normalisation statistics for the penalties' own passes, such as those from
            before the shared pass updated them; empty for the current ones.
    """
    penalties = {name: term for name, term in terms.items() if term.needs_gradient}
    tasks = {name: term for name, term in terms.items() if name not in penalties}
    with with_statistics(statistics):
        frees = probe.create_graph and _detach_all(penalties, probe)
    means = mean_losses(tasks, probe)
    # Under autocast the loss is scaled before it is differentiated. Gradients taken here would not
    # be, and small ones would vanish.
    scaled = torch.is_autocast_enabled(probe.logits.device.type)
    if frees and stops is not None and not scaled:
        means = replace_graphs(means, stops)
        probe.release_graph()  # the last to hold it
    with with_statistics(statistics):
        return {**means, **mean_losses(penalties, probe)}


def _detach_all(penalties: Mapping[str, Term], probe: Probe) -> bool:
    """Let every penalty read its part of the graph; whether none needs the graph afterwards."""
    detached = [
        isinstance(term, OwnPasses) and term.detach_from(probe) for term in penalties.values()
    ]
    return bool(detached) and all(detached)


def replace_graphs(parts: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """The same scalars, with their gradients for ``inputs`` in the place of their graphs.

    Differentiating the task at once takes no longer than differentiating it with the penalties,
    and its graph is gone before theirs are built. The scalars can be differentiated once, and for
    ``inputs`` alone.

    Args:
        parts: Scalars by name. A graph is freed when nothing else holds it.
        inputs: Leaves, such as a model's parameters.

    Example:
        >>> weight = torch.tensor(3.0, requires_grad=True)
        >>> square = replace_graphs({"square": weight**2}, [weight])["square"]
        >>> (2 * square).backward()
        >>> square.item(), weight.grad
        (9.0, tensor(12.))
    """
    result = {}
    for name, part in parts.items():
        if not part.requires_grad:
            result[name] = part
            continue
        # Parts may share a graph, so each pass keeps it for the next.
        gradients = torch.autograd.grad(part, list(inputs), retain_graph=True, allow_unused=True)
        result[name] = _StoredGradients.apply(part.detach(), gradients, *inputs)  # type: ignore[no-untyped-call]
    return result


class _StoredGradients(torch.autograd.Function):
    """A scalar whose gradients are known: backward multiplies them with the incoming factor."""

    @staticmethod
    def forward(
        ctx: Any, value: Tensor, gradients: Sequence[Tensor | None], *inputs: Tensor
    ) -> Tensor:
        del inputs
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if one is None else factor * one for one in ctx.gradients)
        return None, None, *scaled


def restrict_backward(total: Tensor, stops: Sequence[Tensor] | None) -> Tensor:
    """The same scalar, whose ``backward()`` by default computes gradients of ``stops`` alone.

    A tensor that is computed from it is an ordinary one again.

    Args:
        total: A scalar with its graph.
        stops: Leaves of the graph; None leaves ``total`` as it is.
    """
    if not stops:
        return total
    restricted = total.as_subclass(_RestrictedScalar)
    restricted.stops = list(stops)
    return restricted


class _RestrictedScalar(Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    stops: list[Tensor]

    @override
    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Sequence[Tensor] | None = None,
    ) -> None:
        stops = self.stops if inputs is None else inputs
        torch.autograd.backward(self, gradient, retain_graph, create_graph, inputs=stops)
