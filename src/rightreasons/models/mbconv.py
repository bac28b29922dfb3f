"""Inverted bottlenecks (MBConv): wide inside, narrow outside, one filter for each channel.

Nothing works in place, and every activation is a module of its own that is called once in a pass,
so that second derivatives, hooks, attributions and bounds all find what they need.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from torch import Tensor, nn

__all__ = ["MBConv", "conv_unit", "same_padding"]

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
        stride: Of the filters.
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
        stride: Of the convolution.
        groups: Of channels that do not see each other.
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
