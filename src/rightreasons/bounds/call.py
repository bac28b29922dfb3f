"""A call in a model's forward pass, as tracing found it."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import torch
from torch.nn import functional

__all__ = ["Call", "Constant", "RefusedCall", "Variable", "operation_name"]


class RefusedCall(Exception):
    """A call that cannot be bounded; says why. Collected, and never seen by a user."""


class Constant(NamedTuple):
    """A tensor that does not depend on the input, to be read anew for every bound.

    Args:
        name: Of the node that gives it.
        shape: Its shape.
        factor: To be multiplied with.
        inverted: Whether its reciprocal is meant.
    """

    name: str
    shape: tuple[int, ...]
    factor: float = 1.0
    inverted: bool = False


class Variable(NamedTuple):
    """A tensor that depends on the input.

    Args:
        number: Of the node that gives it.
        shape: With the batch.
    """

    number: int
    shape: tuple[int, ...]


class Call(NamedTuple):
    """A call as it was made when the model was traced.

    Args:
        name: Of the function or method.
        args: Plain values, `Constant` and `Variable`.
        kwargs: The same.
        output: The shape of the result, with the batch.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: tuple[int, ...]

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        """The argument at a place, or by its name."""
        return self.args[place] if place < len(self.args) else self.kwargs.get(name, default)

    def arguments(self, place: int, name: str) -> tuple[Any, ...]:
        """All arguments from a place on, given one by one or as one list."""
        rest = self.args[place:] if place < len(self.args) else (self.kwargs[name],)
        return tuple(rest[0]) if len(rest) == 1 and isinstance(rest[0], tuple | list) else rest

    @property
    def input(self) -> tuple[int, ...]:
        """The shape of the first argument, with the batch."""
        shape: tuple[int, ...] = self.argument(0, "input").shape
        return shape


def operation_name(target: object) -> str | None:
    """The name of a method, or of a function of PyTorch's or Python's; None for any other.

    What works in place has the name of what does not: that nothing is overwritten before its
    last use was checked when the model was traced.

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
