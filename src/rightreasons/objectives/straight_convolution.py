"""A convolution whose second derivatives take no longer than its first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["Scope", "convolved"]

_Sides = int | Sequence[int]


@dataclass
class Scope:
    """What the convolutions of a pass are differentiated for.

    Autograd does not tell a function which of its gradients are read.

    Args:
        inputs_alone: Leave out the gradients for weights.
    """

    inputs_alone: bool = True


def convolved(
    scope: Scope,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Sides = 1,
    padding: _Sides | str = 0,
    dilation: _Sides = 1,
    groups: int = 1,
) -> Tensor:
    """As ``functional.conv2d``, whose arguments it takes after the scope.

    Example:
        >>> x, weight = torch.rand(1, 2, 4, 4), torch.rand(3, 2, 3, 3)
        >>> torch.equal(convolved(Scope(), x, weight), torch.conv2d(x, weight))
        True
    """
    if isinstance(padding, str) or torch.is_autocast_enabled(x.device.type):
        return functional.conv2d(x, weight, bias, stride, padding, dilation, groups)
    way = _Way(_sides(stride), _sides(padding), _sides(dilation), groups)
    y: Tensor = _Convolved.apply(x, weight, bias, way, scope)  # type: ignore[no-untyped-call]
    return y


def _sides(given: _Sides) -> list[int]:
    sides = [given] if isinstance(given, int) else list(given)
    return sides * 2 if len(sides) == 1 else sides


class _Way(NamedTuple):
    """How a convolution's kernel goes over its input."""

    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int

    def back(self, gradient: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        """The gradient for the input, which is asked for its shape alone."""
        return self._gradients(gradient, x, weight, [True, False, False])[0]

    def to_weight(self, gradient: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        """The gradient for the weight, which is asked for its shape alone."""
        return self._gradients(gradient, x, weight, [False, True, False])[1]

    def _gradients(
        self, gradient: Tensor, x: Tensor, weight: Tensor, wanted: list[bool]
    ) -> tuple[Tensor, Tensor, Tensor]:
        gradients: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
            *(gradient, x, weight, None),
            *(self.stride, self.padding, self.dilation, False, [0, 0], self.groups, wanted),
        )
        return gradients


class _Convolved(torch.autograd.Function):
    """A convolution whose second derivative for the weight is again one pass of its own kind.

    PyTorch takes it by a convolution with a kernel as large as the image, group by group.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, way: _Way, scope: Scope
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.set_materialize_grads(False)  # no gradient is to stay none, and not become zeros
        ctx.way, ctx.scope = way, scope
        return functional.conv2d(x, weight, bias, *way)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        if gradient is None:
            return (None,) * 5
        x, weight = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad[:3]
        weighs = not ctx.scope.inputs_alone
        return (
            _Back.apply(gradient, weight, x.detach(), ctx.way) if for_x else None,  # type: ignore[no-untyped-call]
            ctx.way.to_weight(gradient, x, weight) if for_weight and weighs else None,
            gradient.sum(dim=(0, 2, 3)) if for_bias and weighs else None,
            *(None, None),
        )


class _Back(torch.autograd.Function):
    """The way from a convolution's output to its input, linear in both its arguments."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, weight: Tensor, x: Tensor, way: _Way) -> Tensor:
        ctx.save_for_backward(gradient, weight)
        ctx.set_materialize_grads(False)
        ctx.way = way
        return way.back(gradient, x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        (moved,) = gradients
        if moved is None:
            return (None,) * 4
        gradient, weight = ctx.saved_tensors
        for_gradient, for_weight = ctx.needs_input_grad[:2]
        return (
            functional.conv2d(moved, weight, None, *ctx.way) if for_gradient else None,
            ctx.way.to_weight(gradient, moved, weight) if for_weight else None,
            *(None, None),
        )
