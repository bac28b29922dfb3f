r"""Layers that are cheaper to differentiate twice than PyTorch's own, with equal derivatives.

A gradient penalty differentiates a gradient. PyTorch's layers spend most of that second pass on
work without effect. Each layer here is an ``autograd.Function`` whose backward is again such a
function, so that derivatives of every order exist:

- ReLU and max pooling are piecewise linear: their second derivative is zero. PyTorch makes a
  tensor of zeros and carries it back through the whole net; here it is None, and that path ends.
- Softplus keeps its output, which the next layer keeps anyway, and not its input too.
- The second derivative of a convolution for its weight is one backward pass of a convolution.
  PyTorch computes it by a convolution with a kernel as large as the image.

In comments, y = f(x) is a layer, g the gradient for y that comes in, and h the gradient for the
layer's result in the second backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

__all__ = ["Scope", "convolve", "fast_second_order"]

_Sides = int | Sequence[int]
_RELUS = (functional.relu, torch.relu, Tensor.relu)
_POOLINGS = (functional.max_pool2d, torch.max_pool2d)


@contextmanager
def fast_second_order() -> Iterator[None]:
    """Replace a net's layers by those of this module, for passes inside the context.

    Values and all derivatives are the same. Inside the context, gradients are taken for the input
    alone: weights of convolutions get none. Afterwards they get the gradients of the pass and of
    its input gradients.

    Example:
        >>> x = torch.tensor([-1.0, 2.0], requires_grad=True)
        >>> with fast_second_order():
        ...     y = functional.relu(x)
        >>> torch.autograd.grad(y.sum(), x, create_graph=True)
        (tensor([0., 1.]),)
    """
    layers = _FastLayers()
    try:
        with layers:
            yield
    finally:
        layers.scope.inputs_alone = False


@dataclass
class Scope:
    """The gradients that the convolutions of a pass compute.

    Autograd does not say which gradients of a function will be read, so the pass says it.

    Args:
        inputs_alone: Leave out the gradients for weights.
    """

    inputs_alone: bool = True


class _FastLayers(TorchFunctionMode):
    """Intercepts calls of layers; those with unusual arguments go to PyTorch."""

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
            return _max_pool(*args, **kwargs)
        if plain and func is functional.softplus:
            return _softplus(*args, **kwargs)
        if plain and func is functional.conv2d and args[0].ndim == 4:
            return convolve(self.scope, *args, **kwargs)
        return func(*args, **kwargs)


def convolve(
    scope: Scope,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Sides = 1,
    padding: _Sides | str = 0,
    dilation: _Sides = 1,
    groups: int = 1,
) -> Tensor:
    """As ``functional.conv2d``, with its arguments after the scope.

    Example:
        >>> x, weight = torch.rand(1, 2, 4, 4), torch.rand(3, 2, 3, 3)
        >>> torch.equal(convolve(Scope(), x, weight), torch.conv2d(x, weight))
        True
    """
    if isinstance(padding, str) or torch.is_autocast_enabled(x.device.type):
        return functional.conv2d(x, weight, bias, stride, padding, dilation, groups)
    geometry = _Geometry(_both_axes(stride), _both_axes(padding), _both_axes(dilation), groups)
    y: Tensor = _Convolution.apply(x, weight, bias, geometry, scope)  # type: ignore[no-untyped-call]
    return y


def _both_axes(given: _Sides) -> list[int]:
    sides = [given] if isinstance(given, int) else list(given)
    return sides * 2 if len(sides) == 1 else sides


class _Geometry(NamedTuple):
    """How a convolution's kernel moves over its input, and the gradients of such a convolution."""

    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int

    def input_gradient(self, gradient: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        """The gradient for the input; only the shape of ``x`` is read."""
        return self._gradients(gradient, x, weight, [True, False, False])[0]

    def weight_gradient(self, gradient: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        """The gradient for the weight; only the shape of ``weight`` is read."""
        return self._gradients(gradient, x, weight, [False, True, False])[1]

    def _gradients(
        self, gradient: Tensor, x: Tensor, weight: Tensor, wanted: list[bool]
    ) -> tuple[Tensor, Tensor, Tensor]:
        gradients: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
            *(gradient, x, weight, None),
            *(self.stride, self.padding, self.dilation, False, [0, 0], self.groups, wanted),
        )
        return gradients


class _Convolution(torch.autograd.Function):
    """y = w * x + b."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, geometry: _Geometry, scope: Scope
    ) -> Tensor:
        _save(ctx, x, weight)
        ctx.geometry, ctx.scope = geometry, scope
        return functional.conv2d(x, weight, bias, *geometry)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        if gradient is None:
            return (None,) * 5
        x, weight = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad[:3]
        weights_too = not ctx.scope.inputs_alone
        return (
            # The input gradient does not depend on the values of x: detached, it adds no edge.
            _ConvolutionGradient.apply(gradient, weight, x.detach(), ctx.geometry)  # type: ignore[no-untyped-call]
            if for_x
            else None,
            ctx.geometry.weight_gradient(gradient, x, weight)
            if for_weight and weights_too
            else None,
            gradient.sum(dim=(0, 2, 3)) if for_bias and weights_too else None,
            *(None, None),
        )


class _ConvolutionGradient(torch.autograd.Function):
    """The input gradient of a convolution, g and w -> w^T * g: linear in g and in w.

    Its transpose in g is the convolution itself, so h goes forward through the same kernel. Its
    derivative for w is the weight gradient of a convolution of h with the output gradient g.
    """

    @staticmethod
    def forward(
        ctx: Any, gradient: Tensor, weight: Tensor, x: Tensor, geometry: _Geometry
    ) -> Tensor:
        _save(ctx, gradient, weight)
        ctx.geometry = geometry
        return geometry.input_gradient(gradient, x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        (h,) = gradients
        if h is None:
            return (None,) * 4
        gradient, weight = ctx.saved_tensors
        for_gradient, for_weight = ctx.needs_input_grad[:2]
        return (
            functional.conv2d(h, weight, None, *ctx.geometry) if for_gradient else None,
            ctx.geometry.weight_gradient(gradient, h, weight) if for_weight else None,
            *(None, None),
        )


def _max_pool(x: Tensor, *settings: Any, **more: Any) -> Tensor:
    """Max pooling as a gather at the indices of the maxima, which are constants."""
    _, indices = functional.max_pool2d_with_indices(
        x.detach(), *settings, **{**more, "return_indices": True}
    )
    # PyTorch keeps indices in 64 bits, which take more memory than the values.
    size = x.shape[2] * x.shape[3]
    small = torch.int16 if size <= torch.iinfo(torch.int16).max else torch.int32
    maxima: Tensor = _Gather.apply(x.flatten(2), indices.flatten(2).to(small))  # type: ignore[no-untyped-call]
    return maxima.view(indices.shape)


class _Gather(torch.autograd.Function):
    """The values at some indices; linear, with `_Scatter` as its transpose."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, indices: Tensor) -> Tensor:
        _save(ctx, indices)
        ctx.size = values.shape[2]
        return values.gather(2, indices.long())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        if gradients[0] is None:
            return None, None
        return _Scatter.apply(gradients[0], *ctx.saved_tensors, ctx.size), None  # type: ignore[no-untyped-call]


class _Scatter(torch.autograd.Function):
    """Values added up at some indices of zeros; linear, with `_Gather` as its transpose."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, indices: Tensor, size: int) -> Tensor:
        _save(ctx, indices)
        zeros = values.new_zeros(*values.shape[:2], size)
        return zeros.scatter_add_(2, indices.long(), values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None, None]:
        if gradients[0] is None:
            return None, None, None
        return _Gather.apply(gradients[0], *ctx.saved_tensors), None, None  # type: ignore[no-untyped-call]


class _Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = functional.relu(x)
        _save(ctx, y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Tensor | None:
        # y only says where the gradient passes. Detached, it gets no gradient, not even zeros.
        return _pass_positive(gradients[0], ctx.saved_tensors[0].detach())


class _PassPositive(torch.autograd.Function):
    """The gradient where y is above zero, else 0; linear in g, and its own transpose."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, y: Tensor) -> Tensor:
        _save(ctx, y)
        return torch.ops.aten.threshold_backward(gradient, y, 0)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        return _pass_positive(gradients[0], ctx.saved_tensors[0]), None


def _pass_positive(gradient: Tensor | None, y: Tensor) -> Tensor | None:
    if gradient is None:
        return None
    passed: Tensor = _PassPositive.apply(gradient, y)  # type: ignore[no-untyped-call]
    return passed


def _softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    y: Tensor = _Softplus.apply(x, beta, threshold)  # type: ignore[no-untyped-call]
    return y


class _Softplus(torch.autograd.Function):
    r"""Softplus, whose derivative follows from its output: :math:`f'(x) = 1 - e^{-\beta y}`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, beta: float, threshold: float) -> Tensor:
        y = functional.softplus(x, beta, threshold)
        _save(ctx, y)
        ctx.beta = beta
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None, None]:
        if gradients[0] is None:
            return None, None, None
        slope = _SoftplusGradient.apply(gradients[0], *ctx.saved_tensors, ctx.beta)  # type: ignore[no-untyped-call]
        return slope, None, None


class _SoftplusGradient(torch.autograd.Function):
    r"""g and y -> :math:`g (1 - e^{-\beta y})`.

    Its derivatives are :math:`1 - e^{-\beta y}` for g and :math:`\beta g e^{-\beta y}` for y. The
    latter goes on to x through `_Softplus`, since y depends on x.
    """

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, y: Tensor, beta: float) -> Tensor:
        _save(ctx, gradient, y)
        ctx.beta = beta
        return torch.mul(y, -beta).expm1_().neg_().mul_(gradient)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, Tensor | None, None]:
        (h,) = gradients
        if h is None:
            return None, None, None
        gradient, y = ctx.saved_tensors
        decay = torch.exp(-ctx.beta * y)
        return h * (1 - decay), ctx.beta * decay * gradient * h, None


def _save(ctx: Any, *tensors: Tensor) -> None:
    """Save tensors for backward, and let a missing gradient stay None and not become zeros."""
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)
