"""Attention branch networks: a branch computes a map of where the net looks."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

from rightreasons.core.checks import check_choice, check_integer
from rightreasons.models.layers import Activation, Size
from rightreasons.models.resnet import resnet18, resnet34, resnet50
from rightreasons.models.small_cnn import small_cnn

__all__ = ["AttentionBranch", "attention_branch"]

_BACKBONES = {"resnet18": resnet18, "resnet34": resnet34, "resnet50": resnet50}


class AttentionBranch(nn.Module):
    r"""A net whose features are weighted by an attention map before classification.

    .. math:: f(x) = \mathrm{perception}\bigl((1 + M(x)) \odot g(x)\bigr), \qquad
        M = \sigma(\mathrm{conv}(h)) , \qquad h = \mathrm{branch}(g(x))

    The branch ends in one map for each class, whose means over pixels are logits of its own. The
    outputs of its parts can be recorded by name: ``attention`` is the map ``(N, 1, h, w)`` in
    (0, 1), ``attention_logits`` are the branch's logits ``(N, K)``. The model itself gives the
    logits of the perception branch alone, so that it can be used like any other.

    Differs from the paper: the branch's logits are the means of its maps, without one more
    convolution, so that all it learns serves the map too.

    Args:
        features: Images -> features ``(N, C, h, w)``.
        perception: Features -> logits ``(N, K)``.
        channels: C.
        classes: K.

    Shape:
        x as ``features`` takes it; logits ``(N, classes)``.

    Example:
        >>> import torch
        >>> features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
        >>> head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
        >>> net = AttentionBranch(features=features, perception=head, channels=8, classes=2)
        >>> net(torch.rand(4, 3, 16, 16)).shape
        torch.Size([4, 2])

    References:
        fukui2019attention
    """

    def __init__(
        self, *, features: nn.Module, perception: nn.Module, channels: int, classes: int
    ) -> None:
        super().__init__()
        channels = check_integer("channels", channels)
        classes = check_integer("classes", classes, low=2)
        self.features = features
        self.branch = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, classes, 1, bias=False),
            nn.BatchNorm2d(classes),
        )
        self.attention = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(classes, 1, 3, padding=1, bias=False),
            nn.BatchNorm2d(1),
            nn.Sigmoid(),
        )
        self.attention_logits = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.perception = perception

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(N, C, H, W)`` -> logits ``(N, K)`` of the perception branch."""
        features = self.features(x)
        response = self.branch(features)
        self.attention_logits(response)  # its output can be recorded by a hook
        logits: Tensor = self.perception((1 + self.attention(response)) * features)
        return logits


def attention_branch(
    *,
    classes: int = 10,
    channels: int = 3,
    size: Size = 32,
    backbone: str = "resnet18",
    stem: str = "auto",
    width: float = 1.0,
    activation: Activation = "relu",
) -> AttentionBranch:
    """Residual or small net with an attention branch before its last part.

    The first three stages are the features; the last stage and the head are the perception
    branch. The features of the small net are its four convolutions, with padding so that maps
    line up with the image.

    Differs from the paper: the attention branch begins with a convolution where it has a copy of
    the last stage, so that a slim net stays slim.

    Args:
        classes: How many classes there are.
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``.
        backbone: ``"resnet18"``, ``"resnet34"``, ``"resnet50"`` (the paper's) or ``"small_cnn"``.
        stem: Stem of a residual net, as for `ResNet`; the small net has none.
        width: Factor on all channels of a residual net; the small net ignores it.
        activation: Name of the activation, such as ``"relu"``.

    Example:
        >>> import torch
        >>> net = attention_branch(classes=10, size=32, width=0.125)
        >>> net(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])

    References:
        fukui2019attention
    """
    check_choice("backbone", backbone, (*_BACKBONES, "small_cnn"))
    if backbone == "small_cnn":
        return _split_small_cnn(
            classes=classes, channels=channels, size=size, activation=activation
        )
    net = _BACKBONES[backbone](
        classes=classes,
        channels=channels,
        size=size,
        stem=stem,
        width=width,
        activation=activation,
    )
    features = _part(net, "conv1", "bn1", "act1", "maxpool", "layer1", "layer2", "layer3")
    perception = _part(net, "layer4", "avgpool", "flatten", "fc")
    return _join(features, perception, classes)


def _split_small_cnn(
    *, classes: int, channels: int, size: Size, activation: Activation
) -> AttentionBranch:
    net = small_cnn(classes=classes, channels=channels, size=size, padding=1, activation=activation)
    names = list(net._modules)
    end = names.index("act4") + 1
    features, perception = _part(net, *names[:end]), _part(net, *names[end:])
    return _join(features, perception, classes)


def _join(features: nn.Module, perception: nn.Module, classes: int) -> AttentionBranch:
    norms = [module for module in features.modules() if isinstance(module, nn.BatchNorm2d)]
    last = norms[-1].num_features
    return AttentionBranch(features=features, perception=perception, channels=last, classes=classes)


def _part(net: nn.Module, *names: str) -> nn.Sequential:
    return nn.Sequential(OrderedDict((name, net.get_submodule(name)) for name in names))
