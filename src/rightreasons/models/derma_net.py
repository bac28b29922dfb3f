"""The R4 paper's net for Decoy DERM, and its four sizes."""

from __future__ import annotations

from torch import nn

from rightreasons.models.activation import Activation
from rightreasons.models.convnet import Convolution, convnet
from rightreasons.models.image_size import Size
from rightreasons.setting import checked_choice, checked_factor

__all__ = ["derma_net"]

_PLAN = (
    Convolution(channels=32, kernel=3, stride=1, padding=1),
    Convolution(channels=32, kernel=4, stride=2, padding=1),
    Convolution(channels=64, kernel=4, stride=1, padding=1),
    Convolution(channels=64, kernel=4, stride=2, padding=1),
    Convolution(channels=64, kernel=4, stride=1, padding=1),
)
_DEPTHS = (2, 3, 4, 5)


def derma_net(
    *,
    classes: int = 2,
    channels: int = 3,
    size: Size = 64,
    depth: int = 4,
    width: float = 1.0,
    activation: Activation = "relu",
) -> nn.Sequential:
    """Four convolutions and three fully connected layers, as on Decoy DERM.

    At 64 x 64 pixels the convolutions leave 64 x 15 x 15 = 14,400 numbers, as in the paper's
    appendix B. Its appendix E varies the size: a net of ``depth`` convolutions has
    ``depth - 1`` fully connected layers, the hidden ones 1,024 wide: 2 is the paper's "small",
    3 "small-medium", 4 "medium-large" (the default), 5 "large".

    Differs from the paper: it ends in logits, not in probabilities. The paper gives the layers
    of depth 4 only; the other depths follow the rule above, with a fifth convolution 64 channels
    wide, 4 x 4, of stride 1. The paper's public code departs from that rule: its first
    convolution is 4 x 4 at depth 2 and 3, its hidden layers at depth 5 are 4,096, 1,024 and 128
    wide.

    Args:
        classes: How many classes there are.
        channels: Of the images.
        size: Of the images, one side or ``(H, W)``.
        depth: How many convolutions, 2 to 5.
        width: Factor of the channels of convolutions and of the hidden layers' width: small images
            need a smaller net.
        activation: See `activation_factory`.

    Shape:
        x ``(N, channels, H, W)``; logits ``(N, classes)``.

    Example:
        >>> derma_net(size=64).fc1
        Linear(in_features=14400, out_features=1024, bias=True)
    """
    depth = checked_choice("depth", depth, _DEPTHS)
    factor = checked_factor("width", width)
    plan = [layer._replace(channels=_scaled(layer.channels, factor)) for layer in _PLAN[:depth]]
    return convnet(
        "derma_net",
        convolutions=tuple(plan),
        hidden=(_scaled(1024, factor),) * (depth - 2),
        classes=classes,
        channels=channels,
        size=size,
        activation=activation,
    )


def _scaled(number: int, factor: float) -> int:
    return max(1, round(number * factor))
