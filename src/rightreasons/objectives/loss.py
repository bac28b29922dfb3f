"""What an objective gives for a batch: a total to differentiate, and its named parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

__all__ = ["Loss", "stopping_at"]


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
