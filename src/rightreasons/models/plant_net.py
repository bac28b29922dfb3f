"""The R4 paper's net for plant phenotyping."""

from __future__ import annotations

from torch import nn

from rightreasons.models.activation import Activation
from rightreasons.models.convnet import Convolution, convnet
from rightreasons.models.image_size import Size

__all__ = ["plant_net"]


def plant_net(
    *,
    classes: int = 2,
    channels: int = 3,
    size: Size = 213,
    activation: Activation = "relu",
) -> nn.Sequential:
    """Four convolutions and three fully connected layers, as on Plant.

    The layers of `derma_net` for larger images: at 213 x 213 pixels the convolutions leave
    64 x 52 x 52 = 173,056 numbers, and the net has 178 million parameters.

    Differs from the paper: it ends in logits, not in probabilities.

    Args:
        classes: How many classes there are.
        channels: Of the images.
        size: Of the images, one side or ``(H, W)``.
        activation: See `activation_factory`.

    Shape:
        x ``(N, channels, H, W)``; logits ``(N, classes)``.

    Example:
        >>> plant_net(size=32).fc1
        Linear(in_features=3136, out_features=1024, bias=True)
    """
    return convnet(
        "plant_net",
        convolutions=(
            Convolution(channels=32, kernel=3, stride=1, padding=1),
            Convolution(channels=32, kernel=4, stride=2, padding=1),
            Convolution(channels=64, kernel=4, stride=1, padding=1),
            Convolution(channels=64, kernel=4, stride=2, padding=1),
        ),
        hidden=(1024, 1024),
        classes=classes,
        channels=channels,
        size=size,
        activation=activation,
    )
