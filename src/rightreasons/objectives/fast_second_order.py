"""A pass through simple nets whose second derivatives cost little time and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

__all__ = ["Scope", "convolved", "straight_pass"]

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


_RELUS = (functional.relu, torch.relu, Tensor.relu)
_POOLINGS = (functional.max_pool2d, torch.max_pool2d)


@contextmanager
def straight_pass() -> Iterator[None]:
    """Let a net's layers be differentiated twice with less work and memory.

    Values and all derivatives are the same. PyTorch's own ReLU and max pooling have a second
    derivative that is a tensor of zeros, which the backward pass of a gradient penalty then
    carries through the whole net; here there is none, and that way back is not gone. Softplus
    keeps its output, which the next layer keeps anyway, in the place of its input. Convolutions
    have a second derivative for their weights that is as quick as the first.

    While the context lasts, gradients are taken for the input alone: weights of convolutions get
    none. Afterwards they get theirs, of the pass and of its gradients.

    Example:
        >>> x = torch.tensor([-1.0, 2.0], requires_grad=True)
        >>> with straight_pass():
        ...     y = functional.relu(x)
        >>> torch.autograd.grad(y.sum(), x, create_graph=True)
        (tensor([0., 1.]),)
    """
    straight = _Straight()
    try:
        with straight:
            yield
    finally:
        straight.scope.inputs_alone = False


class _Straight(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.scope = Scope()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        del types
        kwargs = kwargs or {}
        plain = bool(args) and isinstance(args[0], Tensor) and not kwargs.get("inplace", False)
        if plain and len(args) == 1 and func in _RELUS:
            return _Relu.apply(args[0])  # type: ignore[no-untyped-call]
        if plain and func in _POOLINGS and args[0].ndim == 4:
            return _pooled(*args, **kwargs)
        if plain and func is functional.softplus:
            return _softplus(*args, **kwargs)
        if plain and func is functional.conv2d and args[0].ndim == 4:
            return convolved(self.scope, *args, **kwargs)
        return func(*args, **kwargs)


def _pooled(x: Tensor, *settings: Any, **more: Any) -> Tensor:
    _, places = functional.max_pool2d_with_indices(
        x.detach(), *settings, **{**more, "return_indices": True}
    )
    size = x.shape[2] * x.shape[3]
    small = torch.int16 if size <= torch.iinfo(torch.int16).max else torch.int32
    winners: Tensor = _Gathered.apply(x.flatten(2), places.flatten(2).to(small))  # type: ignore[no-untyped-call]
    return winners.view(places.shape)


def _softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    y: Tensor = _Softplus.apply(x, beta, threshold)  # type: ignore[no-untyped-call]
    return y


class _Gathered(torch.autograd.Function):
    """The values at some places; these are kept in few bits, in 64 they outweigh the values."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, places: Tensor) -> Tensor:
        _keep(ctx, places)
        ctx.size = values.shape[2]
        return values.gather(2, places.long())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        if gradients[0] is None:
            return None, None
        return _Scattered.apply(gradients[0], *ctx.saved_tensors, ctx.size), None  # type: ignore[no-untyped-call]


class _Scattered(torch.autograd.Function):
    """The transpose of `_Gathered`."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, places: Tensor, size: int) -> Tensor:
        _keep(ctx, places)
        empty = values.new_zeros(*values.shape[:2], size)
        return empty.scatter_add_(2, places.long(), values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None, None]:
        if gradients[0] is None:
            return None, None, None
        return _Gathered.apply(gradients[0], *ctx.saved_tensors), None, None  # type: ignore[no-untyped-call]


class _Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = functional.relu(x)
        _keep(ctx, y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Tensor | None:
        return _passed(gradients[0], ctx.saved_tensors[0].detach())


class _Passed(torch.autograd.Function):
    """What goes through where ``y`` is above zero; linear, so its derivative is itself."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, y: Tensor) -> Tensor:
        _keep(ctx, y)
        return torch.ops.aten.threshold_backward(gradient, y, 0)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        return _passed(gradients[0], ctx.saved_tensors[0]), None


def _passed(gradient: Tensor | None, y: Tensor) -> Tensor | None:
    passed: Tensor | None = None if gradient is None else _Passed.apply(gradient, y)  # type: ignore[no-untyped-call]
    return passed


class _Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, beta: float, threshold: float) -> Tensor:
        y = functional.softplus(x, beta, threshold)
        _keep(ctx, y)
        ctx.beta = beta
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None, None]:
        if gradients[0] is None:
            return None, None, None
        slope = _Sloped.apply(gradients[0], *ctx.saved_tensors, ctx.beta)  # type: ignore[no-untyped-call]
        return slope, None, None


class _Sloped(torch.autograd.Function):
    r"""Times Softplus' derivative, by its output: :math:`1 - e^{-\beta y}`."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, y: Tensor, beta: float) -> Tensor:
        _keep(ctx, gradient, y)
        ctx.beta = beta
        return torch.mul(y, -beta).expm1_().neg_().mul_(gradient)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, Tensor | None, None]:
        if gradients[0] is None:
            return None, None, None
        gradient, y = ctx.saved_tensors
        rest = torch.exp(-ctx.beta * y)
        return gradients[0] * (1 - rest), ctx.beta * rest * gradient * gradients[0], None


def _keep(ctx: Any, *tensors: Tensor) -> None:
    """Save tensors for the way back, on which no gradient shall stay none and not become zeros."""
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)
