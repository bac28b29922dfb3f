"""A U-Net: from an image to the logits of a mask of the same size."""

from __future__ import annotations

from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional

from rightreasons.setting import checked_number

__all__ = ["UNet"]

NUM_GROUPS = 4


@final
class UNet(nn.Module):
    """An encoder and a decoder, with what each resolution saw handed across.

    Two 3 x 3 convolutions at each of ``depth + 1`` resolutions, twice as wide at each. Images of
    any size are padded, by repeating their edges, to a multiple of ``2 ** depth``, and cut back.

    Differs from the paper: pix2pix's generator has strided convolutions of size 4 down to one
    pixel, a width of 64, batch normalisation and dropout as its noise; here normalisation is over
    groups of channels, so that a mask depends on its image alone, and nothing is drawn. There is no
    ReLU before the last layer: of a few channels that cannot be negative, weighed by positive
    weights, it could give no logit below its bias, and masked everything.

    Args:
        channels: Of the images.
        width: Channels at the full resolution.
        depth: How often the resolution is halved.

    Shape:
        x ``(N, channels, H, W)``; result ``(N, 1, H, W)``, logits.

    Example:
        >>> UNet(channels=3, width=4, depth=2)(torch.rand(2, 3, 28, 30)).shape
        torch.Size([2, 1, 28, 30])

    References:
        ronneberger2015unet, isola2017image
    """

    def __init__(self, *, channels: int, width: int = 8, depth: int = 3) -> None:
        super().__init__()
        self.channels = checked_number("channels", channels)
        self.depth = checked_number("depth", depth, low=1, high=8)
        first = checked_number("width", width, low=2)
        widths = [first * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            _block(before, after) for before, after in pairwise([channels, *widths])
        )
        self.up = nn.ModuleList(
            _block(below + across, across, signed=across == first)
            for across, below in reversed([*pairwise(widths)])
        )
        self.last = nn.Conv2d(first, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of each image's mask."""
        height, width = x.shape[2:]
        *across, value = self._encoded(x)
        for block, seen in zip(self.up, reversed(across), strict=True):
            wide = functional.interpolate(value, scale_factor=2.0, mode="nearest")
            value = block(torch.cat([wide, seen], dim=1))
        logits: Tensor = self.last(value)
        return logits[:, :, :height, :width]

    def features(self, x: Tensor) -> Tensor:
        """What an image is like, ``(N, F)``: the lowest resolution's channels, averaged."""
        return self._encoded(x)[-1].mean(dim=(2, 3))

    def _encoded(self, x: Tensor) -> list[Tensor]:
        multiple = 2**self.depth
        bottom, right = (-side % multiple for side in x.shape[2:])
        value = functional.pad(x, (0, right, 0, bottom), mode="replicate")
        values = list[Tensor]()
        for level, block in enumerate(self.down):
            value = block(functional.max_pool2d(value, 2) if level else value)
            values.append(value)
        return values


def _block(before: int, after: int, *, signed: bool = False) -> nn.Sequential:
    groups = NUM_GROUPS if after % (2 * NUM_GROUPS) == 0 else 1
    layers: list[nn.Module] = []
    for channels in (before, after):
        layers += [nn.Conv2d(channels, after, 3, padding=1, bias=False)]
        layers += [nn.GroupNorm(groups, after), nn.ReLU()]
    return nn.Sequential(*(layers[:-1] if signed else layers))
