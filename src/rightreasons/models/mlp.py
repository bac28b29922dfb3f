"""Fully connected nets, on the flattened input."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from rightreasons.core.checks import check_integer
from rightreasons.errors import InvalidSettingError
from rightreasons.models.layers import Activation, activation_factory

__all__ = ["mlp", "mlp2"]


def mlp(
    *,
    inputs: int,
    hidden: Sequence[int] = (512,),
    classes: int,
    activation: Activation = "relu",
) -> nn.Sequential:
    """Fully connected net; one hidden layer of 512 as on Decoy MNIST.

    The R4 paper's ablation of the model size is ``hidden=(512,) * depth`` with depth 1 to 4.

    Args:
        inputs: How many numbers a sample has: channels x height x width of an image.
        hidden: The width of each hidden layer; none at all gives a linear model.
        classes: How many classes there are.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.

    Shape:
        x ``(N, *S)`` with ``inputs`` numbers a sample; logits ``(N, classes)``.

    Example:
        >>> import torch
        >>> model = mlp(inputs=784, hidden=(512,), classes=10)
        >>> model(torch.zeros(2, 1, 28, 28)).shape, model(torch.zeros(2, 784)).shape
        (torch.Size([2, 10]), torch.Size([2, 10]))
    """
    if not isinstance(hidden, Sequence) or isinstance(hidden, str):
        raise InvalidSettingError(
            f"Expected `hidden` to be a list of widths, one for each hidden layer, such as "
            f"(512,), but got {hidden!r}."
        )
    make_activation = activation_factory(activation)
    layers: list[nn.Module] = [nn.Flatten()]
    width = check_integer("inputs", inputs)
    for next_width in hidden:
        layers += [nn.Linear(width, check_integer("hidden", next_width)), make_activation()]
        width = next_width
    return nn.Sequential(*layers, nn.Linear(width, check_integer("classes", classes, low=2)))


def mlp2(
    *,
    inputs: int,
    hidden: Sequence[int] = (512, 512),
    classes: int,
    activation: Activation = "relu",
) -> nn.Sequential:
    """Fully connected net with two hidden layers, as on BlockMNIST.

    The settings are those of `mlp`.

    Differs from the paper: it names two hidden layers and no width; 512 is ours.

    Example:
        >>> [tuple(p.shape) for p in mlp2(inputs=2, hidden=(4, 3), classes=2).parameters()]
        [(4, 2), (4,), (3, 4), (3,), (2, 3), (2,)]
    """
    return mlp(inputs=inputs, hidden=hidden, classes=classes, activation=activation)
