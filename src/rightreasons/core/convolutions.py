"""Convolutions without the work that nobody reads.

PyTorch computes the gradient at the weight in every second derivative of a convolution, also where
only the input is asked for. And in double precision it unfolds all samples into one table, which
outgrows the caches. Here weights can be constants, and samples in double precision go in parts.
Kernels and results are PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from typing_extensions import override

__all__ = ["constant_weights", "convolve_in_parts"]

_TABLE_BYTES = 2**22
"""Most bytes of an unfolded table: it fits the caches of a processor."""
_convolve: Callable[..., Tensor] = torch.conv2d


@contextmanager
def constant_weights() -> Iterator[None]:
    """Convolve planes with weights as constants: results carry no graph to the weights.

    Second derivatives at the input then take one product less for each convolution.

    Example:
        >>> x, weight = torch.rand(1, 1, 4, 4, requires_grad=True), torch.rand(1, 1, 3, 3)
        >>> with constant_weights():
        ...     y = torch.conv2d(x, weight)
        >>> torch.equal(y, torch.conv2d(x, weight))
        True
    """
    with _ConstantWeights():
        yield


def convolve_in_parts(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """`torch.conv2d`, in parts of few samples where that is faster.

    Args:
        x: ``(N, C, H, W)``.
        weight: ``(D, C, h, w)``.
        bias: ``(D,)``, or None.
        stride: As in `torch.conv2d`, and so are the others.
        padding: Rows and columns of zeros.
        dilation: Distance of the weights.
        groups: Number of groups of channels.
    """
    settings = (stride, padding, dilation, groups)
    if x.dtype != torch.float64 or x.device.type != "cpu" or x.ndim != 4:
        return _convolve(x, weight, bias, *settings)
    table = math.prod(weight.shape[1:]) * math.prod(x.shape[2:]) * x.element_size()
    size = max(1, _TABLE_BYTES // max(1, table))
    if size >= len(x):
        return _convolve(x, weight, bias, *settings)
    return torch.cat([_convolve(part, weight, bias, *settings) for part in torch.split(x, size)])


class _ConstantWeights(TorchFunctionMode):
    """Replaces convolutions of planes by `_Convolve` while it is active."""

    @override
    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.conv2d and (found := _arguments(*args, **(kwargs or {}))) is not None:
            return _Convolve.apply(*found)  # type: ignore[no-untyped-call]
        return func(*args, **(kwargs or {}))


def _arguments(
    input: Tensor,  # noqa: A002
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> tuple[Any, ...] | None:
    """The arguments of a convolution that can be replaced, each as a pair; None for others."""
    is_plain = type(input) is Tensor and input.ndim == 4 and input.requires_grad
    if not is_plain or isinstance(padding, str) or torch.is_autocast_enabled(input.device.type):
        return None
    pairs = [one if isinstance(one, tuple | list) else (one,) * 2 for one in (stride, padding)]
    dilation = dilation if isinstance(dilation, tuple | list) else (dilation,) * 2
    bias = None if bias is None else bias.detach()
    return input, weight.detach(), bias, *(tuple(one) for one in (*pairs, dilation)), groups


class _Convolve(torch.autograd.Function):
    """A convolution that is differentiated at its input alone."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, *settings: Any) -> Tensor:
        return convolve_in_parts(x, weight, bias, *settings)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        del output
        x, weight, _, *ctx.settings = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        x, weight = ctx.saved_tensors
        pulled = _PullBack.apply(  # type: ignore[no-untyped-call]
            gradients[0], x.detach(), weight, *ctx.settings
        )
        return (pulled, *[None] * 6)


class _PullBack(torch.autograd.Function):
    """The gradient at a convolution's input; as a function of the gradient it is linear."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, x: Tensor, weight: Tensor, *settings: Any) -> Tensor:
        stride, padding, dilation, groups = settings
        pulled: Tensor = torch.ops.aten.convolution_backward(
            gradient,
            x,
            weight,
            None,
            stride,
            padding,
            dilation,
            False,
            (0, 0),
            groups,
            (True, False, False),
        )[0]
        return pulled

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        del output
        _, _, weight, *ctx.settings = inputs
        ctx.save_for_backward(weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        (weight,) = ctx.saved_tensors
        pushed = _Convolve.apply(  # type: ignore[no-untyped-call]
            gradients[0], weight, None, *ctx.settings
        )
        return (pushed, *[None] * 6)
