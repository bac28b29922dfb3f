"""A pass that keeps no more of its activations than a gradient penalty needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from rightreasons.objectives.straight_convolution import Scope, convolved

__all__ = ["straight_pass"]

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
