"""What residual nets are made of: two or three convolutions beside a shortcut.

The names of the parameters are torchvision's. Nothing works in place, which would break second
derivatives, and every activation is a module of its own that is called once in a pass, so that
hooks, attributions and bounds see each by its name.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

__all__ = ["BasicBlock", "Bottleneck"]


class BasicBlock(nn.Module):
    r"""Two 3 x 3 convolutions beside a shortcut: :math:`a(r(x) + s(x))`.

    Args:
        inputs: Channels of the input.
        width: Channels of both convolutions.
        stride: Of the first convolution.
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
        stride: Of the 3 x 3 convolution.
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


def _projection(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
    )
