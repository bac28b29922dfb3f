"""Residual nets for small images: ResNet-32 and WideResNet-28-10, of three stages."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from rightreasons.core.checks import check_integer, positive_float
from rightreasons.models.layers import Activation, Size, activation_factory, check_size
from rightreasons.models.resnet import BasicBlock

__all__ = ["PreActivationBlock", "StagedNet", "resnet32", "wide_resnet28_10"]

_WIDTHS = (16, 32, 64)
_TOTAL_STRIDE = 4


class PreActivationBlock(nn.Module):
    r"""Normalisation and activation before each of two convolutions: :math:`r(x) + s(x)`.

    Where the shortcut changes the size, it reads the activated input, as in the paper's code.

    Args:
        inputs: Channels of the input.
        width: Channels of both convolutions.
        stride: Stride of the first convolution.
        make_activation: Gives a new activation at each call.

    Shape:
        x ``(N, inputs, H, W)``; result ``(N, width, H / stride, W / stride)``, rounded up.
    """

    expansion = 1

    def __init__(
        self, *, inputs: int, width: int, stride: int, make_activation: Callable[[], nn.Module]
    ) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.act1 = make_activation()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.act2 = make_activation()
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.downsample = (
            None
            if stride == 1 and inputs == width
            else nn.Conv2d(inputs, width, 1, stride=stride, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Features in, features out."""
        activated = self.act1(self.bn1(x))
        shortcut = x if self.downsample is None else self.downsample(activated)
        residual: Tensor = self.conv2(self.act2(self.bn2(self.conv1(activated))))
        return residual + shortcut


class StagedNet(nn.Module):
    """A 3 x 3 convolution, three stages of residual blocks, the mean over pixels, a linear head.

    Convolutions start with He's normal initialisation by the number of outputs.

    Args:
        block: `BasicBlock`, or `PreActivationBlock`, after which a normalisation and an activation
            come before the mean.
        num_blocks: Number of blocks of each stage.
        factor: What the widths of the stages, 16, 32 and 64, are multiplied by.
        classes: How many classes there are.
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``, at least 4.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.

    Shape:
        x ``(N, channels, H, W)``; logits ``(N, classes)``.
    """

    def __init__(
        self,
        *,
        block: type[BasicBlock] | type[PreActivationBlock],
        num_blocks: int,
        factor: float,
        classes: int,
        channels: int,
        size: Size,
        activation: Activation,
    ) -> None:
        super().__init__()
        make_activation = activation_factory(activation)
        check_size(size, model="a residual net of three stages", low=_TOTAL_STRIDE)
        first = max(1, round(_WIDTHS[0] * min(factor, 1.0)))
        is_pre = block is PreActivationBlock
        self.conv1 = nn.Conv2d(check_integer("channels", channels), first, 3, padding=1, bias=False)
        self.bn1: nn.Module = nn.Identity() if is_pre else nn.BatchNorm2d(first)
        self.act1: nn.Module = nn.Identity() if is_pre else make_activation()
        inputs, stages = first, []
        for place, full in enumerate(_WIDTHS):
            width = max(1, round(factor * full))
            blocks = []
            for number in range(num_blocks):
                stride = 2 if place and not number else 1
                blocks.append(
                    block(
                        inputs=inputs, width=width, stride=stride, make_activation=make_activation
                    )
                )
                inputs = width
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3 = stages
        self.bn2: nn.Module = nn.BatchNorm2d(inputs) if is_pre else nn.Identity()
        self.act2: nn.Module = make_activation() if is_pre else nn.Identity()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(inputs, check_integer("classes", classes, low=2))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(N, C, H, W)`` -> logits ``(N, K)``."""
        features = self.act1(self.bn1(self.conv1(x)))
        features = self.layer3(self.layer2(self.layer1(features)))
        features = self.act2(self.bn2(features))
        logits: Tensor = self.fc(self.flatten(self.avgpool(features)))
        return logits


def resnet32(
    *,
    classes: int = 10,
    channels: int = 3,
    size: Size = 32,
    width: float = 1.0,
    activation: Activation = "relu",
) -> StagedNet:
    """Residual net of 32 layers for small images, as MaskTune has it on CIFAR-10.

    Three stages of five blocks, 16, 32 and 64 channels wide.

    Differs from the paper of He et al.: where a stage begins, the shortcut is a convolution, where
    theirs fills up with zeros.

    Args:
        classes: How many classes there are.
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``.
        width: Factor on all channels.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.

    Shape:
        x ``(N, channels, H, W)``; logits ``(N, classes)``.

    Example:
        >>> net = resnet32()
        >>> len(net.layer1), net.fc
        (5, Linear(in_features=64, out_features=10, bias=True))
    """
    return StagedNet(
        block=BasicBlock,
        num_blocks=5,
        factor=positive_float("width", width),
        classes=classes,
        channels=channels,
        size=size,
        activation=activation,
    )


def wide_resnet28_10(
    *,
    classes: int = 10,
    channels: int = 3,
    size: Size = 32,
    width: float = 1.0,
    activation: Activation = "relu",
) -> StagedNet:
    """Wide residual net of 28 layers, ten times as wide, as in density smoothing.

    Three stages of four blocks, 160, 320 and 640 channels wide.

    Args:
        classes: How many classes there are.
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``.
        width: Further factor on the channels of the stages; 0.1 is WideResNet-28-1.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.

    Shape:
        x ``(N, channels, H, W)``; logits ``(N, classes)``.

    Example:
        >>> net = wide_resnet28_10(width=0.1)
        >>> len(net.layer1), net.fc
        (4, Linear(in_features=64, out_features=10, bias=True))

    References:
        zagoruyko2016wide
    """
    return StagedNet(
        block=PreActivationBlock,
        num_blocks=4,
        factor=10 * positive_float("width", width),
        classes=classes,
        channels=channels,
        size=size,
        activation=activation,
    )
