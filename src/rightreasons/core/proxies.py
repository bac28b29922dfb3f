"""Stand-ins for tensors while a model is traced."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, fx, nn

__all__ = ["InPlaceProxy", "KnownProxy", "known_value", "without_tracing"]


class InPlaceProxy(fx.Proxy):
    """A proxy that writes down operators such as ``+=`` as what they are: they work in place."""


def _in_place_operator(function: Callable[[Any, Any], Any]) -> Callable[..., fx.Proxy]:
    def write_down(self: fx.Proxy, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    return write_down


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or"):
    _function = getattr(operator, f"__i{_name}__")
    setattr(InPlaceProxy, f"__i{_name}__", _in_place_operator(_function))


_MODULE_METHODS = {name: getattr(nn.Module, name) for name in ("__call__", "__getattr__")}


@contextmanager
def without_tracing() -> Iterator[None]:
    """Let modules compute inside a trace, for which `torch.fx` has replaced two methods."""
    replaced = {name: getattr(nn.Module, name) for name in _MODULE_METHODS}
    try:
        for name, method in _MODULE_METHODS.items():
            setattr(nn.Module, name, method)
        yield
    finally:
        for name, method in replaced.items():
            setattr(nn.Module, name, method)


class KnownProxy(InPlaceProxy):
    """A proxy that knows its value, of which it tells the shape and the type alone."""

    known: Any = None

    def __getattr__(self, name: str) -> Any:
        known = self.__dict__.get("known")
        if name in _TOLD and isinstance(known, Tensor):
            return getattr(known, name)
        return super().__getattr__(name)

    def __len__(self) -> int:
        return len(self.known)


_TOLD = {"shape", "dtype", "device", "ndim", "size", "dim", "numel", "is_floating_point"}


def known_value(argument: Any) -> Any:
    """The value behind a proxy, or the argument itself if it is none."""
    if isinstance(argument, fx.proxy.Attribute):
        return getattr(known_value(argument.root), argument.attr)
    return argument.known if isinstance(argument, KnownProxy) else argument
