"""What the annotator minimises: a segmentation loss, or pix2pix's."""

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
    r"""How much two masks overlap, of each sample: 0 to 1.

    .. math:: \frac{2 \sum_i p_i m_i + s}{\sum_i p_i + \sum_i m_i + s}

    Args:
        soft: ``(N, ...)`` in [0, 1].
        mask: The true mask, in the same shape.
        smoothing: :math:`s`, so that two empty masks overlap wholly.

    Example:
        >>> dice(torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 0.0]]), smoothing=0.0)
        tensor([0.6667])
    """
    both = (soft * mask).flatten(1).sum(dim=1)
    total = (soft + mask).flatten(1).sum(dim=1)
    return (2 * both + smoothing) / (total + smoothing)


@final
class Segmentation(Term):
    r"""Cross-entropy of pixels, and what Dice lacks to 1 inside the mask and outside.

    .. math:: \frac{1}{HW} \sum_i \mathrm{BCE}(p_i, m_i) + 1 -
              \tfrac12 \bigl( \mathrm{Dice}(p, m) + \mathrm{Dice}(1 - p, 1 - m) \bigr)

    Unit: nats a pixel, and none. Dice counts a small mask, or a small rest, as much as a large
    one. For a `MaskNet`.
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


def patch_loss(judged: Tensor, *, by_hand: bool) -> Tensor:
    """The mean cross-entropy of a discriminator's patches against one answer, ``(N,)``.

    Args:
        judged: ``(N, 1, h, w)``, logits.
        by_hand: The answer: drawn by hand, or made.

    Example:
        >>> patch_loss(torch.zeros(1, 1, 2, 2), by_hand=True).exp()
        tensor([2.])
    """
    answer = torch.full_like(judged, float(by_hand))
    losses = functional.binary_cross_entropy_with_logits(judged, answer, reduction="none")
    return losses.mean(dim=(1, 2, 3))


@final
class Pix2Pix(Term):
    r"""The adversarial game of pix2pix, both sides at once, and the distance of masks.

    .. math:: \underbrace{-\log D(x, G(x)) + \lambda \, \tfrac{1}{HW} \lVert G(x) - m \rVert_1
              }_{\text{moves } G} \;
              \underbrace{- \tfrac12 \log D(x, m) - \tfrac12 \log(1 - D(x, G(x)))
              }_{\text{moves } D}

    where :math:`\log D` is the mean over patches. Each side's gradient reaches its own weights
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
        judge, x, mask = net.discriminator, probe.features, probe.mask
        made = torch.sigmoid(probe.activations["generator"])
        fixed = {name: weight.detach() for name, weight in judge.named_parameters()}
        fooled = patch_loss(functional_call(judge, fixed, (x, made)), by_hand=True)
        distance = (made - mask).abs().mean(dim=(1, 2, 3))
        known = patch_loss(judge(x, mask), by_hand=True)
        caught = patch_loss(judge(x, made.detach()), by_hand=False)
        return fooled + self.l1_weight * distance + (known + caught) / 2
