"""Residual nets with torchvision's names of parameters, so that its weight files fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from rightreasons.core.checks import check_choice, check_integer, positive_float
from rightreasons.models.layers import Activation, Size, activation_factory, check_size, named_net

__all__ = ["BasicBlock", "Bottleneck", "ResNet", "resnet18", "resnet34", "resnet50"]

_STEMS = ("auto", "cifar", "imagenet")
_LARGEST_FOR_CIFAR_STEM = 64
_TOTAL_STRIDE = {"cifar": 8, "imagenet": 32}
_STAGE_WIDTHS = (64, 128, 256, 512)


class BasicBlock(nn.Module):
    r"""Two 3 x 3 convolutions beside a shortcut: :math:`a(r(x) + s(x))`.

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
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.act1 = make_activation()
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _projection(inputs, width, stride)
        self.act2 = make_activation()

    def forward(self, x: Tensor) -> Tensor:
        """Activations in, activations out."""
        residual = self.act1(self.bn1(self.conv1(x)))
        residual = self.bn2(self.conv2(residual))
        shortcut = x if self.downsample is None else self.downsample(x)
        activations: Tensor = self.act2(residual + shortcut)
        return activations


class Bottleneck(nn.Module):
    r"""1 x 1, 3 x 3 and 1 x 1 convolutions beside a shortcut: :math:`a(r(x) + s(x))`.

    Args:
        inputs: Channels of the input.
        width: Channels of the first two convolutions; the last has four times as many.
        stride: Stride of the 3 x 3 convolution.
        make_activation: Gives a new activation at each call.

    Shape:
        x ``(N, inputs, H, W)``; result ``(N, 4 * width, H / stride, W / stride)``, rounded up.
    """

    expansion = 4

    def __init__(
        self, *, inputs: int, width: int, stride: int, make_activation: Callable[[], nn.Module]
    ) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.act1 = make_activation()
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.act2 = make_activation()
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = _projection(inputs, outputs, stride)
        self.act3 = make_activation()

    def forward(self, x: Tensor) -> Tensor:
        """Activations in, activations out."""
        residual = self.act1(self.bn1(self.conv1(x)))
        residual = self.act2(self.bn2(self.conv2(residual)))
        residual = self.bn3(self.conv3(residual))
        shortcut = x if self.downsample is None else self.downsample(x)
        activations: Tensor = self.act3(residual + shortcut)
        return activations


class ResNet(nn.Module):
    """A stem, four stages of residual blocks, the mean over pixels and a linear head.

    The stages are ``layer1`` to ``layer4``, the head is ``fc``. Convolutions start with He's
    normal initialisation by the number of outputs. An image must leave at least one pixel, so
    no side may be shorter than 32 pixels with the stem ``"imagenet"`` or 8 with ``"cifar"``.

    Args:
        block: `BasicBlock` or `Bottleneck`.
        blocks: How many blocks each of the four stages has.
        classes: How many classes there are.
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``; decides about the stem.
        stem: ``"imagenet"`` (7 x 7 of stride 2 and a pooling), ``"cifar"`` (3 x 3 of stride 1,
            no pooling) or ``"auto"``. The last takes ``"cifar"`` for sides of up to 64 pixels.
            Torchvision's weight files fit ``"imagenet"``.
        width: Factor on all channels; below 1 the net is slim.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.

    Shape:
        x ``(N, channels, H, W)``; logits ``(N, classes)``.
    """

    def __init__(
        self,
        *,
        block: type[BasicBlock] | type[Bottleneck],
        blocks: Sequence[int],
        classes: int = 1000,
        channels: int = 3,
        size: Size = 224,
        stem: str = "auto",
        width: float = 1.0,
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        make_activation = activation_factory(activation)
        factor = positive_float("width", width)
        widths = [max(1, round(factor * stage_width)) for stage_width in _STAGE_WIDTHS]
        check_integer("channels", channels)
        if _choose_stem(stem, size) == "imagenet":
            self.conv1 = nn.Conv2d(channels, widths[0], 7, stride=2, padding=3, bias=False)
            self.maxpool: nn.Module = nn.MaxPool2d(3, stride=2, padding=1)
        else:
            self.conv1 = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
            self.maxpool = nn.Identity()
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.act1 = make_activation()
        inputs = widths[0]
        stages: list[nn.Sequential] = []
        for stage_width, num_blocks in zip(widths, blocks, strict=True):
            stride = 2 if stages else 1
            stages.append(
                _make_stage(block, num_blocks, inputs, stage_width, stride, make_activation)
            )
            inputs = stage_width * block.expansion
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(inputs, check_integer("classes", classes, low=2))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(N, C, H, W)`` -> logits ``(N, K)``."""
        activations = self.maxpool(self.act1(self.bn1(self.conv1(x))))
        activations = self.layer2(self.layer1(activations))
        activations = self.layer4(self.layer3(activations))
        logits: Tensor = self.fc(self.flatten(self.avgpool(activations)))
        return logits


@named_net(ResNet, block=BasicBlock, blocks=(2, 2, 2, 2))
def resnet18() -> ResNet:  # type: ignore[empty-body]
    """Residual net of 18 layers, with torchvision's parameter names.

    The settings are those of `ResNet`.

    Example:
        >>> import torch
        >>> model = resnet18(classes=10, size=32, width=0.125)
        >>> model.conv1.kernel_size, model(torch.zeros(2, 3, 32, 32)).shape
        ((3, 3), torch.Size([2, 10]))
    """


@named_net(ResNet, block=BasicBlock, blocks=(3, 4, 6, 3))
def resnet34() -> ResNet:  # type: ignore[empty-body]
    """Residual net of 34 layers, with torchvision's parameter names.

    The settings are those of `ResNet`.

    Example:
        >>> model = resnet34(width=0.125)
        >>> len(model.layer1), len(model.layer2), len(model.layer3), len(model.layer4)
        (3, 4, 6, 3)
    """


@named_net(ResNet, block=Bottleneck, blocks=(3, 4, 6, 3))
def resnet50() -> ResNet:  # type: ignore[empty-body]
    """Residual net of 50 layers, with torchvision's parameter names.

    The settings are those of `ResNet`.

    Differs from the paper of He et al.: as in torchvision, the 3 x 3 convolution of a block
    takes the stride, not the first 1 x 1.

    Example:
        >>> resnet50(classes=2, width=0.125).fc
        Linear(in_features=256, out_features=2, bias=True)
    """


def _make_stage(
    block: type[BasicBlock] | type[Bottleneck],
    num_blocks: int,
    inputs: int,
    width: int,
    stride: int,
    make_activation: Callable[[], nn.Module],
) -> nn.Sequential:
    first = block(inputs=inputs, width=width, stride=stride, make_activation=make_activation)
    inputs = width * block.expansion
    others = [
        block(inputs=inputs, width=width, stride=1, make_activation=make_activation)
        for _ in range(num_blocks - 1)
    ]
    return nn.Sequential(first, *others)


def _choose_stem(stem: str, size: Size) -> str:
    chosen = check_choice("stem", stem, _STEMS)
    if chosen == "auto":
        is_small = max(check_size(size)) <= _LARGEST_FOR_CIFAR_STEM
        chosen = "cifar" if is_small else "imagenet"
    check_size(size, model=f"a resnet with the {chosen} stem", low=_TOTAL_STRIDE[chosen])
    return chosen


def _projection(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
    )
