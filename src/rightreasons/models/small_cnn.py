"""MaskTune's small convolutional net for biased MNIST."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from rightreasons.core.checks import check_integer
from rightreasons.models.layers import Activation, Size, activation_factory, remaining_size

__all__ = ["small_cnn"]

_POOLED_AFTER = (2, 4)
_WIDTHS = (16, 16, 32, 32)
_HIDDEN = 256


def small_cnn(
    *,
    classes: int = 2,
    channels: int = 3,
    size: Size = 28,
    padding: int = 0,
    activation: Activation = "relu",
) -> nn.Sequential:
    """Four normalised convolutions and a hidden layer, as on biased MNIST.

    3 x 3 convolutions have 16, 16, 32 and 32 channels, with pooling after the second and the
    fourth. 256 hidden units follow. Batch normalisation and an activation follow each layer.
    28 x 28 pixels leave 32 x 4 x 4 = 512 numbers. MaskTune's heat maps are those of ``act4``,
    the last activation before the last pooling.

    Differs from the paper: it says "four convolutional layers and a linear head"; the widths
    and the hidden layer are those of its public code.

    Args:
        classes: How many classes there are.
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``.
        padding: Zeros around the input of each convolution. Without padding, as in the paper, a
            heat map that is resized to the image is up to five pixels off at its edges. With 1
            it lines up with the image.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.

    Shape:
        x ``(N, channels, H, W)``; logits ``(N, classes)``.

    Example:
        >>> small_cnn(size=28).fc1
        Linear(in_features=512, out_features=256, bias=True)
    """
    make_activation = activation_factory(activation)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    width = check_integer("channels", channels)
    padding = check_integer("padding", padding, low=0, high=1)
    for number, next_width in enumerate(_WIDTHS, start=1):
        layers[f"conv{number}"] = nn.Conv2d(width, next_width, 3, padding=padding)
        layers[f"bn{number}"] = nn.BatchNorm2d(next_width)
        layers[f"act{number}"] = make_activation()
        if number in _POOLED_AFTER:
            layers[f"pool{number // 2}"] = nn.MaxPool2d(2)
        width = next_width
    height_left, width_left = remaining_size("small_cnn", layers.values(), size)
    layers["flatten"] = nn.Flatten()
    layers["fc1"] = nn.Linear(width * height_left * width_left, _HIDDEN)
    layers["bn5"] = nn.BatchNorm1d(_HIDDEN)
    layers["act5"] = make_activation()
    layers["fc2"] = nn.Linear(_HIDDEN, check_integer("classes", classes, low=2))
    return nn.Sequential(layers)
