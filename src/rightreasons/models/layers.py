"""Parts that the nets share: activations, image sizes, settings, outputs beside the logits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from inspect import signature
from typing import Any, TypeVar

from torch import nn

from rightreasons.core.checks import check_integer
from rightreasons.errors import InvalidSettingError, UnknownNameError

__all__ = [
    "ABSTENTION",
    "ACTIVATIONS",
    "AUXILIARY",
    "SELECTION",
    "Activation",
    "Size",
    "activation_factory",
    "check_size",
    "named_net",
    "remaining_size",
    "side_output",
]

Net = TypeVar("Net", bound=nn.Module)

Activation = str | Callable[[], nn.Module]

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "gelu": nn.GELU,
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "softplus": partial(nn.Softplus, beta=3.0),
    "tanh": nn.Tanh,
}

Size = int | Sequence[int]

_LARGEST_SEARCHED = 4096

ABSTENTION = "all_logits"
"""Logits ``(N, K + 1)``, the last one that of abstaining."""
SELECTION = "selection"
"""Log-odds ``(N, 1)`` of answering."""
AUXILIARY = "auxiliary_logits"
"""Logits ``(N, K)`` of a second head."""

_MADE_BY = {
    ABSTENTION: "abstaining, or wrap one with a further output in Abstaining",
    SELECTION: "selective_net, or give a body of your own to SelectiveHeads",
    AUXILIARY: "selective_net, or give a body of your own to SelectiveHeads",
}


def activation_factory(activation: Activation) -> Callable[[], nn.Module]:
    r"""Give a function that makes a new activation module at each call.

    No activation works in place, which would break second derivatives; ``"softplus"`` is
    :math:`\frac1\beta \log(1 + e^{\beta x})` with :math:`\beta = 3`, a smooth form of ReLU.

    Args:
        activation: A name, or a function without arguments such as ``nn.SiLU`` or
            ``lambda: nn.Softplus(beta=10.0)``.

    Example:
        >>> activation_factory("softplus")()
        Softplus(beta=3.0, threshold=20.0)
    """
    if isinstance(activation, nn.Module):
        raise InvalidSettingError(
            f"Expected `activation` to be a name or a function that makes a module, but got a "
            f"module, {activation}, which all places would share. Use lambda: {activation}."
        )
    if callable(activation):
        return activation
    if activation not in ACTIVATIONS:
        raise UnknownNameError("kind of activation", str(activation), ACTIVATIONS)
    return ACTIVATIONS[activation]


def check_size(size: Size, *, model: str = "a model", low: int = 1) -> tuple[int, int]:
    """Check an image size and give it as height and width.

    Args:
        size: One side of a square image, or ``(H, W)``.
        model: Name of the model, for the error message.
        low: Smallest side that the model can take.

    Example:
        >>> check_size(28), check_size([28, 56])
        ((28, 28), (28, 56))
    """
    sides = list(size) if isinstance(size, Sequence) and not isinstance(size, str) else [size] * 2
    if len(sides) != 2:
        raise InvalidSettingError(
            f"Expected `size` to be one number of pixels or (H, W), but got {size!r}."
        )
    height, width = (check_integer("size", side) for side in sides)
    if min(height, width) < low:
        raise _too_small(model, (height, width), low)
    return height, width


def remaining_size(model: str, layers: Iterable[nn.Module], size: Size) -> tuple[int, int]:
    r"""The size of an image after convolutions and poolings; raises if nothing is left.

    Along each axis a window of size :math:`k`, stride :math:`s` and padding :math:`p` leaves
    :math:`\lfloor (n + 2p - k) / s \rfloor + 1` of :math:`n` pixels; other layers leave all.

    Args:
        model: Name of the model, for the error message.
        layers: Layers in the order of the forward pass.
        size: One side of a square image, or ``(H, W)``.

    Example:
        >>> remaining_size("a net", [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2)], (28, 14))
        (13, 6)
    """
    height, width = check_size(size)
    windows = [window for layer in layers if (window := _window(layer)) is not None]
    remaining = _after(windows, height), _after(windows, width)
    if min(remaining) < 1:
        sides = range(1, _LARGEST_SEARCHED)
        low = next((n for n in sides if _after(windows, n) > 0), _LARGEST_SEARCHED)
        raise _too_small(model, (height, width), low)
    return remaining


def side_output(model: nn.Module, layer: str) -> str:
    """Find the full name of a layer, at any depth of the model.

    Args:
        model: A model with the layer, perhaps inside another module, as in `normalised`.
        layer: Last part of its name, such as ``"selection"``.

    Example:
        >>> side_output(nn.ModuleDict({"net": nn.ModuleDict({"selection": nn.Identity()})}),
        ...             "selection")
        'net.selection'
    """
    names: list[str] = [name for name, _ in model.named_modules() if name.split(".")[-1] == layer]
    if not names:
        raise InvalidSettingError(
            f"Expected a model with a layer called {layer!r}, but {type(model).__name__} has none. "
            f"Use the model {_MADE_BY.get(layer, 'that has one')}."
        )
    return min(names, key=lambda name: name.count("."))


def named_net(
    make: Callable[..., Net], **fixed: Any
) -> Callable[[Callable[[], Net]], Callable[..., Net]]:
    """Give a named net all settings and defaults of a general one, except the fixed settings.

    The decorated function has a name and a docstring, but no body.

    Args:
        make: Makes the general net from keyword settings.
        fixed: Settings that the named net decides.
    """
    kept = [one for one in signature(make).parameters.values() if one.name not in fixed]

    def decorate(named: Callable[[], Net]) -> Callable[..., Net]:
        @wraps(named)
        def create(**settings: Any) -> Net:
            return make(**fixed, **settings)

        create.__signature__ = signature(named).replace(parameters=kept)  # type: ignore[attr-defined]
        return create

    return decorate


def _window(layer: nn.Module) -> tuple[int, int, int] | None:
    if isinstance(layer, nn.Conv2d):
        return layer.kernel_size[0], layer.stride[0], int(layer.padding[0])
    if isinstance(layer, nn.MaxPool2d):
        return _side(layer.kernel_size), _side(layer.stride), _side(layer.padding)
    return None


def _side(window: int | tuple[int, int]) -> int:
    return window if isinstance(window, int) else window[0]


def _after(windows: Iterable[tuple[int, int, int]], pixels: int) -> int:
    for kernel, stride, padding in windows:
        if pixels + 2 * padding < kernel:
            return 0
        pixels = (pixels + 2 * padding - kernel) // stride + 1
    return pixels


def _too_small(model: str, size: tuple[int, int], low: int) -> InvalidSettingError:
    return InvalidSettingError(
        f"Expected `size` of at least {low} x {low} pixels for {model}, but got "
        f"{size[0]} x {size[1]}. Enlarge the images, or take a model with fewer poolings, such "
        f"as mlp."
    )
