"""Which nonlinearity a net has: by name, or anything that makes a module."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import nn

from rightreasons.errors import InvalidSettingError, UnknownNameError

__all__ = ["ACTIVATIONS", "Activation", "activation_factory"]

Activation = str | Callable[[], nn.Module]

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "gelu": nn.GELU,
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "softplus": partial(nn.Softplus, beta=3.0),
    "tanh": nn.Tanh,
}


def activation_factory(activation: Activation) -> Callable[[], nn.Module]:
    r"""What makes the activations of a net, a new module for every place.

    None of them works in place, which would break second derivatives; ``"softplus"`` is
    :math:`\frac1\beta \log(1 + e^{\beta x})` with :math:`\beta = 3`, ReLU's smooth twin.

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
