"""The annotator's nets: a U-Net that draws masks, and a discriminator of patches."""

from __future__ import annotations

from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional

from rightreasons.core.checks import check_integer
from rightreasons.errors import InvalidSettingError

__all__ = ["SMALLEST_SIDE", "MaskNet", "PatchDiscriminator", "UNet"]

NUM_GROUPS = 4
SMALLEST_SIDE = 24
NUM_LAYERS = 5
NUM_HALVINGS = 3
SLOPE = 0.2


@final
class UNet(nn.Module):
    """An encoder and a decoder with skip connections at each resolution.

    Two 3 x 3 convolutions at each of ``depth + 1`` resolutions, twice as wide at each. Images of
    any size are padded, by repeating their edges, to a multiple of ``2 ** depth``, and cut back.

    Differs from the paper: pix2pix's generator has strided convolutions of size 4 down to one
    pixel, a width of 64, batch normalisation, and dropout as its noise. Here normalisation is over
    groups of channels and nothing is random, so that a mask depends on its image alone. The last
    layer has no ReLU before it: with positive weights no logit would fall below the bias, and
    every pixel would be masked.

    Args:
        channels: Number of image channels.
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
        self.channels = check_integer("channels", channels)
        self.depth = check_integer("depth", depth, low=1, high=8)
        first = check_integer("width", width, low=2)
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
        *skipped, value = self._encode(x)
        for block, skip in zip(self.up, reversed(skipped), strict=True):
            wide = functional.interpolate(value, scale_factor=2.0, mode="nearest")
            value = block(torch.cat([wide, skip], dim=1))
        logits: Tensor = self.last(value)
        return logits[:, :, :height, :width]

    def features(self, x: Tensor) -> Tensor:
        """Features of an image, ``(N, F)``: channels of the lowest resolution, averaged."""
        return self._encode(x)[-1].mean(dim=(2, 3))

    def _encode(self, x: Tensor) -> list[Tensor]:
        multiple = 2**self.depth
        bottom, right = (-side % multiple for side in x.shape[2:])
        value = functional.pad(x, (0, right, 0, bottom), mode="replicate")
        values = list[Tensor]()
        for level, block in enumerate(self.down):
            value = block(functional.max_pool2d(value, 2) if level else value)
            values.append(value)
        return values


@final
class PatchDiscriminator(nn.Module):
    """Five convolutions of size 4 that classify patches of an image with its mask.

    The first three halve the resolution. Each output sees 70 x 70 pixels, or all of a smaller
    image. The paper's channels are 64, 128, 256, 512 and 1.

    Differs from the paper: normalisation is over each sample alone. Pix2pix's batch normalisation
    does the same at its batch size of 1.

    Args:
        channels: Number of image channels, without the mask.
        width: Channels after the first convolution; 64 in the paper.

    Shape:
        x ``(N, channels, H, W)``, mask ``(N, 1, H, W)``, at least 24 pixels a side; result
        ``(N, 1, h, w)``, logits: above 0 for a mask that a person drew.

    Example:
        >>> discriminator = PatchDiscriminator(channels=3, width=4)
        >>> discriminator(torch.rand(2, 3, 28, 28), torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 1, 1, 1])

    References:
        isola2017image
    """

    def __init__(self, *, channels: int, width: int = 64) -> None:
        super().__init__()
        before = check_integer("channels", channels) + 1
        check_integer("width", width)
        layers: list[nn.Module] = []
        for number in range(NUM_LAYERS):
            is_last = number == NUM_LAYERS - 1
            after = 1 if is_last else width * 2**number
            stride = 2 if number < NUM_HALVINGS else 1
            layers.append(nn.Conv2d(before, after, 4, stride=stride, padding=1))
            if number and not is_last:
                layers.append(nn.InstanceNorm2d(after))
            if not is_last:
                layers.append(nn.LeakyReLU(SLOPE))
            before = after
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Logits of each patch: whether a person drew its mask."""
        height, width = x.shape[2:]
        if min(height, width) < SMALLEST_SIDE:
            raise InvalidSettingError(
                f"Expected images of at least {SMALLEST_SIDE} x {SMALLEST_SIDE} pixels for "
                f"pix2pix's discriminator, but got {height} x {width}. Enlarge them, or use "
                'objective="segmentation".'
            )
        logits: Tensor = self.layers(torch.cat([x, mask], dim=1))
        return logits


@final
class MaskNet(nn.Module):
    """A net of masks in the form of a classifier, so that `fit` can train it.

    Its one logit is the mean of the mask's logits. A term, `Segmentation` or `Pix2Pix`, reads the
    masks as the layer ``generator``.

    Args:
        generator: Gives logits of masks.
        discriminator: Classifies masks; trained together with the generator. None for terms
            without one.

    Shape:
        x ``(N, C, H, W)``; result ``(N, 1)``.

    Example:
        >>> import torch
        >>> MaskNet(UNet(channels=1, width=4, depth=1))(torch.rand(2, 1, 8, 8)).shape
        torch.Size([2, 1])
    """

    def __init__(self, generator: UNet, discriminator: PatchDiscriminator | None = None) -> None:
        super().__init__()
        self.generator = generator
        self.discriminator = discriminator

    def forward(self, x: Tensor) -> Tensor:
        """The mean of each mask's logits."""
        logits: Tensor = self.generator(x)
        return logits.mean(dim=(2, 3))


def _block(before: int, after: int, *, signed: bool = False) -> nn.Sequential:
    groups = NUM_GROUPS if after % (2 * NUM_GROUPS) == 0 else 1
    layers: list[nn.Module] = []
    for channels in (before, after):
        layers += [nn.Conv2d(channels, after, 3, padding=1, bias=False)]
        layers += [nn.GroupNorm(groups, after), nn.ReLU()]
    return nn.Sequential(*(layers[:-1] if signed else layers))
