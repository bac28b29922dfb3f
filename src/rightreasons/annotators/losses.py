"""Losses of the annotator: segmentation, or pix2pix."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional
from typing_extensions import override

from rightreasons.annotators.networks import MaskNet
from rightreasons.core.checks import positive_float
from rightreasons.core.model_modes import innermost
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives import Term
from rightreasons.probe.probe import Probe

__all__ = ["Pix2Pix", "Segmentation", "dice", "patch_loss"]

SMOOTHING = 1.0


def dice(soft: Tensor, mask: Tensor, *, smoothing: float = SMOOTHING) -> Tensor:
    r"""The overlap of two masks, for each sample: 0 to 1.

    .. math:: \frac{2 \sum_i p_i m_i + s}{\sum_i p_i + \sum_i m_i + s}

    Args:
        soft: ``(N, ...)`` in [0, 1].
        mask: The true mask, in the same shape.
        smoothing: :math:`s`, by which two empty masks have an overlap of 1.

    Example:
        >>> dice(torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 0.0]]), smoothing=0.0)
        tensor([0.6667])
    """
    both = (soft * mask).flatten(1).sum(dim=1)
    total = (soft + mask).flatten(1).sum(dim=1)
    return (2 * both + smoothing) / (total + smoothing)


@final
class Segmentation(Term):
    r"""Cross-entropy of pixels, plus 1 minus the mean Dice overlap inside and outside the mask.

    .. math:: \frac{1}{HW} \sum_i \mathrm{BCE}(p_i, m_i) + 1 -
              \tfrac12 \bigl( \mathrm{Dice}(p, m) + \mathrm{Dice}(1 - p, 1 - m) \bigr)

    Unit: nats per pixel, plus a number without unit. Dice weighs a small region as much as a
    large one. For a `MaskNet`.
    """

    layers = ("generator",)
    is_task = True

    @override
    def forward(self, probe: Probe) -> Tensor:
        logits, mask = probe.activations["generator"], probe.mask
        pixels = functional.binary_cross_entropy_with_logits(logits, mask, reduction="none")
        soft = torch.sigmoid(logits)
        overlap = (dice(soft, mask) + dice(1 - soft, 1 - mask)) / 2
        return pixels.mean(dim=(1, 2, 3)) + 1 - overlap


def patch_loss(logits: Tensor, *, drawn: bool) -> Tensor:
    """The mean cross-entropy of a discriminator's patches against one label, ``(N,)``.

    Args:
        logits: Logits of the patches, ``(N, 1, h, w)``.
        drawn: The label: True for a mask drawn by a person, False for a generated one.

    Example:
        >>> patch_loss(torch.zeros(1, 1, 2, 2), drawn=True).exp()
        tensor([2.])
    """
    label = torch.full_like(logits, float(drawn))
    losses = functional.binary_cross_entropy_with_logits(logits, label, reduction="none")
    return losses.mean(dim=(1, 2, 3))


@final
class Pix2Pix(Term):
    r"""The adversarial losses of pix2pix, of both nets at once, and the distance of masks.

    .. math:: \underbrace{-\log D(x, G(x)) + \lambda \, \tfrac{1}{HW} \lVert G(x) - m \rVert_1
              }_{\text{moves } G} \;
              \underbrace{- \tfrac12 \log D(x, m) - \tfrac12 \log(1 - D(x, G(x)))
              }_{\text{moves } D}

    where :math:`\log D` is the mean over patches. Each loss changes the weights of its own net
    alone. For a `MaskNet` with a discriminator.

    Differs from the paper, which trains "in the same way as pix2pix": D steps first, then G. Here
    both step at once, from the same weights.

    Args:
        l1_weight: :math:`\lambda`; 100 in pix2pix.

    References:
        isola2017image, adachi2022learning
    """

    layers = ("generator",)
    is_task = True

    def __init__(self, *, l1_weight: float = 100.0) -> None:
        super().__init__()
        self.l1_weight = positive_float("l1_weight", l1_weight)

    @override
    def forward(self, probe: Probe) -> Tensor:
        net = innermost(probe.model)
        if not isinstance(net, MaskNet) or net.discriminator is None:
            raise InvalidSettingError(
                f"Expected a MaskNet with a discriminator for Pix2Pix, but got "
                f"{type(net).__name__}. Use MaskNet(generator, PatchDiscriminator(...))."
            )
        discriminator, x, mask = net.discriminator, probe.features, probe.mask
        generated = torch.sigmoid(probe.activations["generator"])
        # The generator's loss sees fixed weights of the discriminator, and the discriminator's
        # loss a detached mask, so that one backward pass serves both nets.
        fixed = {name: weight.detach() for name, weight in discriminator.named_parameters()}
        fooling = patch_loss(functional_call(discriminator, fixed, (x, generated)), drawn=True)
        distance = (generated - mask).abs().mean(dim=(1, 2, 3))
        on_drawn = patch_loss(discriminator(x, mask), drawn=True)
        on_generated = patch_loss(discriminator(x, generated.detach()), drawn=False)
        return fooling + self.l1_weight * distance + (on_drawn + on_generated) / 2
