"""The small net of the paper on local gradient alignment."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from rightreasons.core.checks import check_integer, positive_float
from rightreasons.models.layers import Activation, Size, activation_factory, remaining_size

__all__ = ["lenet"]

_POOLED_AFTER = (2, 4)
_WIDTHS = (32, 32, 64, 64)
_HIDDEN = 256


def lenet(
    *,
    classes: int = 10,
    channels: int = 3,
    size: Size = 32,
    activation: Activation = "relu",
    width: float = 1.0,
) -> nn.Sequential:
    """Four convolutions and a hidden layer, "LeNet" of gradient alignment.

    3 x 3 convolutions with padding to 32, 32, 64 and 64 channels, halved after the second and
    the fourth, then 256 hidden units. 32 x 32 pixels leave 64 x 8 x 8 = 4,096 numbers.

    Differs from the paper: its nets have ``activation="softplus"``, which makes the Hessian
    non-zero; the default here is ReLU. It speaks of three layers; the layers here are those of
    its public code.

    Args:
        classes: How many classes there are.
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.
        width: Factor of the channels of convolutions and of the hidden units.

    Shape:
        x ``(N, channels, H, W)``; logits ``(N, classes)``.

    Example:
        >>> lenet(size=32, activation="softplus").fc1
        Linear(in_features=4096, out_features=256, bias=True)
    """
    make_activation = activation_factory(activation)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    factor = positive_float("width", width)
    before = check_integer("channels", channels)
    *after, hidden = (max(1, round(factor * full)) for full in (*_WIDTHS, _HIDDEN))
    for number, following in enumerate(after, start=1):
        layers[f"conv{number}"] = nn.Conv2d(before, following, 3, padding=1)
        layers[f"act{number}"] = make_activation()
        if number in _POOLED_AFTER:
            layers[f"pool{number // 2}"] = nn.MaxPool2d(2)
        before = following
    height_left, width_left = remaining_size("lenet", layers.values(), size)
    layers["flatten"] = nn.Flatten()
    layers["fc1"] = nn.Linear(before * height_left * width_left, hidden)
    layers["act5"] = make_activation()
    layers["fc2"] = nn.Linear(hidden, check_integer("classes", classes, low=2))
    return nn.Sequential(layers)
