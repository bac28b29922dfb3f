"""The R4 paper's net for ISIC skin lesions."""

from __future__ import annotations

from torch import nn

from rightreasons.models.activation import Activation
from rightreasons.models.convnet import Convolution, convnet
from rightreasons.models.image_size import Size
from rightreasons.setting import checked_choice

__all__ = ["isic_net"]

_PLAN = (
    Convolution(channels=16, kernel=4, stride=2, padding=0),
    Convolution(channels=32, kernel=4, stride=4, padding=0),
    Convolution(channels=64, kernel=4, stride=1, padding=1),
)
_DEPTHS = (2, 3)


def isic_net(
    *,
    classes: int = 2,
    channels: int = 3,
    size: Size = 299,
    depth: int = 2,
    activation: Activation = "relu",
) -> nn.Sequential:
    """Two strided convolutions and two fully connected layers, as on ISIC.

    Differs from the paper: its appendix B prints a third convolution, yet 43,808 inputs of the
    layer after it. The two do not fit: at 299 x 299 pixels two convolutions leave
    32 x 37 x 37 = 43,808 numbers, three leave 64 x 36 x 36 = 82,944. The paper's public code
    has two, which is the default here; ``depth=3`` adds the printed third one. It ends in
    logits, not in probabilities.

    Args:
        classes: How many classes there are.
        channels: Of the images.
        size: Of the images, one side or ``(H, W)``.
        depth: How many convolutions, 2 or 3.
        activation: See `activation_factory`.

    Shape:
        x ``(N, channels, H, W)``; logits ``(N, classes)``.

    Example:
        >>> isic_net(size=299).fc1
        Linear(in_features=43808, out_features=100, bias=True)
    """
    return convnet(
        "isic_net",
        convolutions=_PLAN[: checked_choice("depth", depth, _DEPTHS)],
        hidden=(100,),
        classes=classes,
        channels=channels,
        size=size,
        activation=activation,
    )
