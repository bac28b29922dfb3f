"""ABN: an attention map that equals what someone annotated."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.objectives.attention_term import AttentionTerm
from rightreasons.probe import Probe

__all__ = ["ABN"]


@final
class ABN(AttentionTerm):
    r"""The mean squared distance of an attention map and what is outside the mask.

    .. math:: \frac{1}{HW} \lVert M(x) - (1 - m) \rVert_2^2

    where the map of an `AttentionBranch` is resized bilinearly to the mask. Unit: none, from 0
    to 1. Samples without a mask (`Batch.guided`) add nothing.

    Differs from the paper: Mitsuhara et al. have the mean of squares in words and a sum in the
    formula; here it is the mean, which does not depend on the size of images.

    References:
        mitsuhara2021embedding, adachi2022learning
    """

    layers = ("attention",)

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        attention = self.recorded(probe)
        size = probe.features.shape[2:]
        mask = probe.mask.mean(dim=1).expand(-1, *size)
        resized = functional.interpolate(attention, size=size, mode="bilinear")[:, 0]
        distance = (resized - (1 - mask)).square().mean(dim=(1, 2))
        guided = probe.batch.guided
        return distance if guided is None else torch.where(guided, distance, 0)
