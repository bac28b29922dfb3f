"""From a call in a traced graph to the layer that has a bound rule."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from rightreasons.bounds.combination import Add, Average, Concatenate, Elementwise, Multiply
from rightreasons.bounds.shape import Pad, Permute, Reshape, Select

__all__ = ["COPIES", "OPERATIONS", "Call", "Constant", "RefusedCall", "Variable", "operation_name"]


class RefusedCall(Exception):
    """The reason why a call cannot be bounded. Tracing collects them into one error."""


class Constant(NamedTuple):
    """A tensor that does not depend on the input. Its value is read anew for every bound.

    Args:
        name: Name of the node that gives it.
        shape: Its shape.
        factor: A factor to multiply it with.
        inverted: Whether to take its reciprocal.
    """

    name: str
    shape: tuple[int, ...]
    factor: float = 1.0
    inverted: bool = False


class Variable(NamedTuple):
    """A tensor that depends on the input.

    Args:
        number: Number of the node that gives it.
        shape: Its shape, with the batch.
    """

    number: int
    shape: tuple[int, ...]


class Call(NamedTuple):
    """A call as it was made when the model was traced.

    Args:
        name: Name of the function or method.
        args: Positional arguments: plain values, `Constant` and `Variable`.
        kwargs: Keyword arguments, of the same types.
        output: Shape of the result, with the batch.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: tuple[int, ...]

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """The argument at a position, or by its name."""
        return self.args[position] if position < len(self.args) else self.kwargs.get(name, default)

    def arguments(self, position: int, name: str) -> tuple[Any, ...]:
        """All arguments from a position on, given one by one or as one list."""
        given = self.args[position:] if position < len(self.args) else (self.kwargs[name],)
        return tuple(given[0]) if len(given) == 1 and isinstance(given[0], tuple | list) else given

    @property
    def input(self) -> tuple[int, ...]:
        """The shape of the first argument, with the batch."""
        shape: tuple[int, ...] = self.argument(0, "input").shape
        return shape


def operation_name(target: object) -> str | None:
    """The name of a method, or of a function of PyTorch or `operator`; None for any other.

    A call that works in place has the name of the one that does not. Tracing has checked that it
    overwrites nothing that is read again.

    Example:
        >>> operation_name(torch.relu), operation_name("add_"), operation_name(operator.iadd)
        ('relu', 'add', 'add')
    """
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    if not isinstance(target, str):
        homes = (torch, functional, operator)
        if not any(getattr(home, name, None) is target for home in homes):
            return None
        if getattr(operator, name, None) is target and name in _IN_PLACE:
            return _IN_PLACE[name]
    return name.removesuffix("_")


_IN_PLACE = {"iadd": "add", "isub": "sub", "imul": "mul", "itruediv": "truediv"}


COPIES = frozenset({"clone", "contiguous", "dropout", "dropout1d", "dropout2d", "identity"})
"""Calls that return their input as it is; dropouts only where they are switched off."""


def _sum(call: Call) -> object:
    return _weighted_sum(call, 1.0)


def _difference(call: Call) -> object:
    return _weighted_sum(call, -1.0)


def _weighted_sum(call: Call, sign: float) -> object:
    left, right = call.argument(0, "input"), call.argument(1, "other")
    factor = sign * float(call.kwargs.get("alpha", 1))
    if isinstance(left, Variable) and isinstance(right, Variable):
        _check_shapes(call, left, right)
        return Add(factor)
    if isinstance(left, Variable):
        return _elementwise(call, 1.0, _scale(right, factor))
    return _elementwise(call, factor, left)


def _product(call: Call) -> object:
    left, right = call.argument(0, "input"), call.argument(1, "other")
    if isinstance(left, Variable) and isinstance(right, Variable):
        _check_shapes(call, left, right)
        return Multiply()
    return _elementwise(call, right if isinstance(left, Variable) else left, 0.0)


def _quotient(call: Call) -> object:
    left, right = call.argument(0, "input"), call.argument(1, "other")
    if not isinstance(left, Variable) or isinstance(right, Variable):
        raise RefusedCall("only division by a constant is bounded")
    if call.kwargs.get("rounding_mode") is not None:
        raise RefusedCall("rounding is not bounded")
    inverse = right._replace(inverted=True) if isinstance(right, Constant) else 1 / right
    return _elementwise(call, inverse, 0.0)


def _negative(call: Call) -> object:
    del call
    return Elementwise(factor=-1.0)


def _reshape(call: Call) -> object:
    return Reshape(call.output[1:])


def _permute(call: Call) -> object:
    axes = tuple(axis % len(call.input) for axis in call.arguments(1, "dims"))
    return _permute_axes(axes)


def _transpose(call: Call) -> object:
    axes = list(range(len(call.input)))
    first, second = call.argument(1, "dim0"), call.argument(2, "dim1")
    axes[first], axes[second] = axes[second], axes[first]
    return _permute_axes(tuple(axes))


def _permute_axes(axes: tuple[int, ...]) -> object:
    if axes[0] != 0:
        raise RefusedCall("the batch must stay first")
    return Permute(axes)


def _mean(call: Call) -> object:
    return _reduce(call, sums=False)


def _total(call: Call) -> object:
    return _reduce(call, sums=True)


def _reduce(call: Call, *, sums: bool) -> object:
    chosen = call.argument(1, "dim", call.kwargs.get("axis"))
    if chosen is None:
        raise RefusedCall("it mixes the samples of a batch; name the axes")
    listed = chosen if isinstance(chosen, tuple | list) else (chosen,)
    axes = tuple(axis % len(call.input) for axis in listed)
    if 0 in axes:
        raise RefusedCall("it mixes the samples of a batch")
    return Average(axes, bool(call.argument(2, "keepdim", False)), sums)


def _concatenation(call: Call) -> object:
    parts = call.argument(0, "tensors")
    axis = call.argument(1, "dim", call.kwargs.get("axis", 0))
    if not all(isinstance(part, Variable) for part in parts):
        raise RefusedCall("only tensors that depend on the input can be concatenated")
    if axis % len(call.output) == 0:
        raise RefusedCall("it concatenates along the batch")
    return Concatenate(axis % len(call.output))


def _padding(call: Call) -> object:
    amounts, mode, value = (call.argument(i, n) for i, n in enumerate(("pad", "mode", "value"), 1))
    if mode not in (None, "constant") or value:
        raise RefusedCall("only padding with zeros is bounded")
    if len(amounts) >= 2 * len(call.input):
        raise RefusedCall("it pads the batch")
    return Pad(tuple(amounts))


def _selection(call: Call) -> object:
    index = call.args[1] if isinstance(call.args[1], tuple) else (call.args[1],)
    whole_batch = index[0] is Ellipsis or index[0] == slice(None)
    if index[0] is Ellipsis:
        missing = len(call.input) - len(index) + 1
        index = (slice(None),) * missing + index[1:]
    if not whole_batch or not all(isinstance(part, slice | int) for part in index):
        raise RefusedCall("only slices and whole numbers behind the batch are bounded")
    return Select(index[1:])


def _module(kind: Callable[..., nn.Module], *names: str) -> Callable[[Call], object]:
    """What makes a module of a call whose arguments after the input have these names."""

    def make_module(call: Call) -> object:
        values = {name: call.argument(position, name) for position, name in enumerate(names, 1)}
        settings = {name: value for name, value in values.items() if value is not None}
        return kind(**settings)

    return make_module


def _layer_norm(call: Call) -> object:
    shape, weight, bias = (call.argument(i, n) for i, n in enumerate(_NORM, 1))
    norm = nn.LayerNorm(shape, float(call.argument(4, "eps", 1e-5)), elementwise_affine=False)
    if weight is None and bias is None:
        return norm
    given = (default if one is None else one for one, default in ((weight, 1.0), (bias, 0.0)))
    return [norm, _elementwise(call, *given)]


_NORM = ("normalized_shape", "weight", "bias")


def _elementwise(call: Call, factor: Any, shift: Any) -> object:
    for value in (factor, shift):
        if isinstance(value, Constant):
            shape = (1,) * (len(call.output) - len(value.shape)) + tuple(value.shape)
            if shape[0] != 1 or len(shape) > len(call.output):
                raise RefusedCall("a constant must be the same for all samples")
        elif not isinstance(value, int | float):
            raise RefusedCall(f"a constant of type {type(value).__name__} is not bounded")
    variable = next(arg for arg in call.args if isinstance(arg, Variable))
    if variable.shape != call.output:
        raise RefusedCall("a constant must not enlarge what it is combined with")
    settings: list[Any] = [v if isinstance(v, Constant) else float(v) for v in (factor, shift)]
    return Elementwise(*settings)


def _scale(value: Any, factor: float) -> Any:
    if isinstance(value, Constant):
        return value._replace(factor=value.factor * factor)
    return value * factor


def _check_shapes(call: Call, left: Variable, right: Variable) -> None:
    if left.shape != right.shape or left.shape != call.output:
        raise RefusedCall("only activations of one shape can be combined")


_WINDOW = ("kernel_size", "stride", "padding")

OPERATIONS: dict[str, Callable[[Call], object]] = {
    **dict.fromkeys(("add",), _sum),
    **dict.fromkeys(("sub", "subtract"), _difference),
    **dict.fromkeys(("mul", "multiply"), _product),
    **dict.fromkeys(("div", "divide", "truediv", "true_divide"), _quotient),
    **dict.fromkeys(("neg", "negative"), _negative),
    **dict.fromkeys(("flatten", "reshape", "view", "squeeze", "unsqueeze", "unflatten"), _reshape),
    "permute": _permute,
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), _transpose),
    "mean": _mean,
    "sum": _total,
    **dict.fromkeys(("cat", "concat", "concatenate"), _concatenation),
    "pad": _padding,
    "getitem": _selection,
    "layer_norm": _layer_norm,
    "relu": _module(nn.ReLU),
    "relu6": _module(nn.ReLU6),
    "leaky_relu": _module(nn.LeakyReLU, "negative_slope"),
    "hardtanh": _module(nn.Hardtanh, "min_val", "max_val"),
    "elu": _module(nn.ELU, "alpha"),
    "gelu": _module(nn.GELU, "approximate"),
    "sigmoid": _module(nn.Sigmoid),
    "silu": _module(nn.SiLU),
    "softplus": _module(nn.Softplus, "beta", "threshold"),
    "tanh": _module(nn.Tanh),
    "max_pool1d": _module(nn.MaxPool1d, *_WINDOW, "dilation", "ceil_mode"),
    "max_pool2d": _module(nn.MaxPool2d, *_WINDOW, "dilation", "ceil_mode"),
    "avg_pool1d": _module(nn.AvgPool1d, *_WINDOW, "ceil_mode", "count_include_pad"),
    "avg_pool2d": _module(
        nn.AvgPool2d, *_WINDOW, "ceil_mode", "count_include_pad", "divisor_override"
    ),
    "adaptive_avg_pool1d": _module(nn.AdaptiveAvgPool1d, "output_size"),
    "adaptive_avg_pool2d": _module(nn.AdaptiveAvgPool2d, "output_size"),
}
"""For each function or method, by name, what makes a layer of a call, or layers in a row."""
