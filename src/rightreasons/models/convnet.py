"""Convolutions, then fully connected layers: the plan that the R4 paper's nets share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from torch import nn

from rightreasons.models.activation import Activation, activation_factory
from rightreasons.models.image_size import Size, remaining_size
from rightreasons.setting import checked_number

__all__ = ["Convolution", "convnet"]


class Convolution(NamedTuple):
    """One row of the plan: output channels and the window."""

    channels: int
    kernel: int
    stride: int
    padding: int


def convnet(
    name: str,
    *,
    convolutions: Sequence[Convolution],
    hidden: Sequence[int],
    classes: int,
    channels: int,
    size: Size,
    activation: Activation = "relu",
) -> nn.Sequential:
    """Convolutions, flattening, fully connected layers; an activation between each two.

    The layers are called ``conv1, act1, conv2, …, flatten, fc1, …``; the first fully connected
    one is as wide as the convolutions leave it at this image size.

    Args:
        name: Of the model, for messages.
        convolutions: The plan, in order.
        hidden: Widths of the fully connected layers before the last.
        classes: How many classes there are.
        channels: Of the images.
        size: Of the images, one side or ``(H, W)``.
        activation: See `activation_factory`.

    Example:
        >>> plan = [Convolution(channels=4, kernel=3, stride=2, padding=0)]
        >>> net = convnet("a net", convolutions=plan, hidden=[], classes=2, channels=1, size=9)
        >>> list(net._modules), net.fc1
        (['conv1', 'act1', 'flatten', 'fc1'], Linear(in_features=64, out_features=2, bias=True))
    """
    make_activation = activation_factory(activation)
    width = checked_number("channels", channels)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, plan in enumerate(convolutions, start=1):
        layers[f"conv{number}"] = nn.Conv2d(
            width, plan.channels, plan.kernel, stride=plan.stride, padding=plan.padding
        )
        layers[f"act{number}"] = make_activation()
        width = plan.channels
    height_left, width_left = remaining_size(name, layers.values(), size)
    layers["flatten"] = nn.Flatten()
    width *= height_left * width_left
    for number, next_width in enumerate(hidden, start=1):
        layers[f"fc{number}"] = nn.Linear(width, next_width)
        layers[f"act{len(convolutions) + number}"] = make_activation()
        width = next_width
    head = nn.Linear(width, checked_number("classes", classes, low=2))
    layers[f"fc{len(hidden) + 1}"] = head
    return nn.Sequential(layers)
