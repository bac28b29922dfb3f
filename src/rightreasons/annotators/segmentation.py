"""The plain way to learn masks: cross-entropy of pixels and Dice."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.objectives import Term
from rightreasons.probe import Probe

__all__ = ["Segmentation", "dice"]

SMOOTHING = 1.0


def dice(soft: Tensor, mask: Tensor, *, smoothing: float = SMOOTHING) -> Tensor:
    r"""How much two masks overlap, of each sample: 0 to 1.

    .. math:: \frac{2 \sum_i p_i m_i + s}{\sum_i p_i + \sum_i m_i + s}

    Args:
        soft: ``(N, ...)`` in [0, 1].
        mask: Of the same shape.
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

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        logits, mask = probe.activations["generator"], probe.mask
        pixels = functional.binary_cross_entropy_with_logits(logits, mask, reduction="none")
        soft = torch.sigmoid(logits)
        overlap = (dice(soft, mask) + dice(1 - soft, 1 - mask)) / 2
        return pixels.mean(dim=(1, 2, 3)) + 1 - overlap
