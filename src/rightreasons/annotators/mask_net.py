"""The generator of masks as `fit` can train it, with a discriminator beside it if it needs one."""

from __future__ import annotations

from typing import final

from torch import Tensor, nn

from rightreasons.annotators.patch_discriminator import PatchDiscriminator
from rightreasons.annotators.unet import UNet

__all__ = ["MaskNet"]


@final
class MaskNet(nn.Module):
    """A generator whose masks terms read as the layer ``generator``.

    `fit` trains classifiers; to it this is one of a single class, whose logit is the mean of the
    mask's. What is learned is said by a term, `Segmentation` or `Pix2Pix`.

    Args:
        generator: Gives logits of masks.
        discriminator: Judges masks; trained together with the generator. None if no term asks.

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
