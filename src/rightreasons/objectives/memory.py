"""Parts of a loss whose way back is gone at once, so that its memory is free for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["settled"]


def settled(parts: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """The same scalars, with their gradients for ``inputs`` in the place of their graphs.

    A term that needs a graph of its own, as large or larger, need not share memory with the graph
    of the task: differentiating the task first takes no longer than differentiating it with the
    rest. The scalars can be differentiated once, and for ``inputs`` alone.

    Args:
        parts: By name. Their graphs go when nobody else holds them.
        inputs: Leaves, such as a model's parameters.

    Example:
        >>> weight = torch.tensor(3.0, requires_grad=True)
        >>> square = settled({"square": weight**2}, [weight])["square"]
        >>> (2 * square).backward()
        >>> square.item(), weight.grad
        (9.0, tensor(12.))
    """
    result = {}
    for name, part in parts.items():
        if not part.requires_grad:
            result[name] = part
            continue
        gradients = torch.autograd.grad(part, list(inputs), retain_graph=True, allow_unused=True)
        result[name] = _Settled.apply(part.detach(), gradients, *inputs)  # type: ignore[no-untyped-call]
    return result


class _Settled(torch.autograd.Function):
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
        own = (None if one is None else factor * one for one in ctx.gradients)
        return None, None, *own
