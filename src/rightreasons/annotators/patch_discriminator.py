"""Pix2pix's discriminator: which patches of a mask were drawn by hand?"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from rightreasons.errors import InvalidSettingError
from rightreasons.setting import checked_number

__all__ = ["SMALLEST_SIDE", "PatchDiscriminator"]

SMALLEST_SIDE = 24
NUM_LAYERS = 5
NUM_HALVINGS = 3
SLOPE = 0.2


@final
class PatchDiscriminator(nn.Module):
    """Five convolutions of size 4 that judge patches of an image with its mask.

    The first three halve the resolution; each of the last one's numbers sees 70 x 70 pixels, or
    all of a smaller image. The paper's channels are 64, 128, 256, 512 and 1.

    Differs from the paper: normalisation is over each sample alone, what pix2pix's batch
    normalisation is at its batch size of 1.

    Args:
        channels: Of the images, without the mask.
        width: Channels after the first convolution; 64 in the paper.

    Shape:
        x ``(N, channels, H, W)``, mask ``(N, 1, H, W)``, at least 24 pixels a side; result
        ``(N, 1, h, w)``, logits: above 0 is "by hand".

    Example:
        >>> judge = PatchDiscriminator(channels=3, width=4)
        >>> judge(torch.rand(2, 3, 28, 28), torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 1, 1, 1])

    References:
        isola2017image
    """

    def __init__(self, *, channels: int, width: int = 64) -> None:
        super().__init__()
        before = checked_number("channels", channels) + 1
        checked_number("width", width)
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
        """How much each patch looks drawn by hand."""
        height, width = x.shape[2:]
        if min(height, width) < SMALLEST_SIDE:
            raise InvalidSettingError(
                f"Expected images of at least {SMALLEST_SIDE} x {SMALLEST_SIDE} pixels for "
                f"pix2pix's discriminator, but got {height} x {width}. Enlarge them, or use "
                'objective="segmentation".'
            )
        logits: Tensor = self.layers(torch.cat([x, mask], dim=1))
        return logits
