"""R4's convolutional nets: for Decoy DERM, ISIC and Plant."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import nn

from rightreasons.core.checks import check_choice, check_integer, positive_float
from rightreasons.models.layers import Activation, Size, activation_factory, remaining_size

__all__ = [
    "Convolution",
    "Initialisation",
    "convnet",
    "derma_net",
    "isic_net",
    "plant_net",
    "start_for_bounds",
]

Initialisation = Literal["usual", "interval"]
INPUTS_READ = 4
"""Inputs that each unit reads at first, if bounds are to stay narrow."""


class Convolution(NamedTuple):
    """One row of the plan: output channels and the window."""

    channels: int
    kernel: int
    stride: int
    padding: int


_DERMA_PLAN = (
    Convolution(channels=32, kernel=3, stride=1, padding=1),
    Convolution(channels=32, kernel=4, stride=2, padding=1),
    Convolution(channels=64, kernel=4, stride=1, padding=1),
    Convolution(channels=64, kernel=4, stride=2, padding=1),
    Convolution(channels=64, kernel=4, stride=1, padding=1),
)
_DERMA_DEPTHS = (2, 3, 4, 5)
_ISIC_PLAN = (
    Convolution(channels=16, kernel=4, stride=2, padding=0),
    Convolution(channels=32, kernel=4, stride=4, padding=0),
    Convolution(channels=64, kernel=4, stride=1, padding=1),
)
_ISIC_DEPTHS = (2, 3)


def convnet(
    name: str,
    *,
    convolutions: Sequence[Convolution],
    hidden: Sequence[int],
    classes: int,
    channels: int,
    size: Size,
    activation: Activation = "relu",
    initialisation: Initialisation = "usual",
) -> nn.Sequential:
    """Convolutions, flattening, fully connected layers; an activation between each two.

    The layers are called ``conv1, act1, conv2, …, flatten, fc1, …``; the first fully connected
    one is as wide as the convolutions leave it at this image size.

    Args:
        name: Name of the model, for error messages.
        convolutions: The plan, in order.
        hidden: Widths of the fully connected layers before the last.
        classes: How many classes there are.
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.
        initialisation: ``"usual"``, PyTorch's own, or ``"interval"``, see `start_for_bounds`.

    Example:
        >>> plan = [Convolution(channels=4, kernel=3, stride=2, padding=0)]
        >>> net = convnet("a net", convolutions=plan, hidden=[], classes=2, channels=1, size=9)
        >>> list(net._modules), net.fc1
        (['conv1', 'act1', 'flatten', 'fc1'], Linear(in_features=64, out_features=2, bias=True))
    """
    make_activation = activation_factory(activation)
    width = check_integer("channels", channels)
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
    head = nn.Linear(width, check_integer("classes", classes, low=2))
    layers[f"fc{len(hidden) + 1}"] = head
    net = nn.Sequential(layers)
    if check_choice("initialisation", initialisation, ("usual", "interval")) == "interval":
        start_for_bounds(net)
    return net


def start_for_bounds(model: nn.Module) -> None:
    r"""Draw weights anew, so that interval bounds hardly widen from layer to layer.

    A layer widens an interval by :math:`\sum_j |W_{ij}|`, of which a ReLU passes on about a half.
    If each unit reads k inputs, drawn at random, with weights :math:`\mathcal N(0, 2 / k)`, signals
    keep their size for every k (He et al. 2015). Widths grow by

    .. math:: \frac k2 \, \mathbb E |W_{ij}| = \sqrt{k / \pi}

    in each layer: by 1.13 with k = 4, and by 13 if each unit reads 512 inputs. All other weights
    and the biases begin at 0 and learn like the rest. Sparse weights are those of Martens 2010.

    Args:
        model: A net of convolutions and linear layers; changed in place.

    References:
        martens2010deep
    """
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            units, inputs = len(layer.weight), layer.weight[0].numel()
            reads = min(INPUTS_READ, inputs)
            places = torch.rand(units, inputs).argsort(dim=1)[:, :reads]
            drawn = math.sqrt(2 / reads) * torch.randn(units, reads)
            weight = torch.zeros(units, inputs).scatter(1, places, drawn)
            with torch.no_grad():
                layer.weight.copy_(weight.reshape_as(layer.weight))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def derma_net(
    *,
    classes: int = 2,
    channels: int = 3,
    size: Size = 64,
    depth: int = 4,
    width: float = 1.0,
    activation: Activation = "relu",
    initialisation: Initialisation = "usual",
) -> nn.Sequential:
    """Four convolutions and three fully connected layers, as on Decoy DERM.

    At 64 x 64 pixels the convolutions leave 64 x 15 x 15 = 14,400 numbers, as in the paper's
    appendix B. Its appendix E varies the size: a net of ``depth`` convolutions has
    ``depth - 1`` fully connected layers, the hidden ones 1,024 wide. Depth 2 is the paper's
    "small", 3 "small-medium", 4 "medium-large" (the default), 5 "large".

    Differs from the paper: it ends in logits, not in probabilities. The paper gives the layers
    of depth 4 only; the other depths follow the rule above, with a fifth convolution 64 channels
    wide, 4 x 4, of stride 1. The paper's public code departs from that rule. Its first
    convolution is 4 x 4 at depths 2 and 3. Its hidden layers at depth 5 are 4,096, 1,024 and 128
    wide.

    Args:
        classes: How many classes there are.
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``.
        depth: How many convolutions, 2 to 5.
        width: Factor of the channels of convolutions and of the hidden layers' width: small images
            need a smaller net.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.
        initialisation: ``"usual"``, or ``"interval"`` for narrow bounds, see `start_for_bounds`.

    Shape:
        x ``(N, channels, H, W)``; logits ``(N, classes)``.

    Example:
        >>> derma_net(size=64).fc1
        Linear(in_features=14400, out_features=1024, bias=True)
    """
    depth = check_choice("depth", depth, _DERMA_DEPTHS)
    factor = positive_float("width", width)
    plan = [
        layer._replace(channels=_scale(layer.channels, factor)) for layer in _DERMA_PLAN[:depth]
    ]
    return convnet(
        "derma_net",
        convolutions=tuple(plan),
        hidden=(_scale(1024, factor),) * (depth - 2),
        classes=classes,
        channels=channels,
        size=size,
        activation=activation,
        initialisation=initialisation,
    )


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
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``.
        depth: How many convolutions, 2 or 3.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.

    Shape:
        x ``(N, channels, H, W)``; logits ``(N, classes)``.

    Example:
        >>> isic_net(size=299).fc1
        Linear(in_features=43808, out_features=100, bias=True)
    """
    return convnet(
        "isic_net",
        convolutions=_ISIC_PLAN[: check_choice("depth", depth, _ISIC_DEPTHS)],
        hidden=(100,),
        classes=classes,
        channels=channels,
        size=size,
        activation=activation,
    )


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
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.

    Shape:
        x ``(N, channels, H, W)``; logits ``(N, classes)``.

    Example:
        >>> plant_net(size=32).fc1
        Linear(in_features=3136, out_features=1024, bias=True)
    """
    return convnet(
        "plant_net",
        convolutions=_DERMA_PLAN[:4],
        hidden=(1024, 1024),
        classes=classes,
        channels=channels,
        size=size,
        activation=activation,
    )


def _scale(number: int, factor: float) -> int:
    return max(1, round(number * factor))
