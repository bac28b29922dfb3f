"""How sure a soft mask is of itself."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["confidence", "mask_uncertainty"]


def mask_uncertainty(soft: Tensor) -> Tensor:
    r"""The mean binary entropy of a soft mask's pixels, in bits, ``(N,)``: 0 to 1.

    .. math:: -\frac{1}{HW} \sum_i \bigl( p_i \log_2 p_i + (1 - p_i) \log_2 (1 - p_i) \bigr)

    Args:
        soft: ``(N, ...)`` in [0, 1].

    Example:
        >>> mask_uncertainty(torch.tensor([[0.5, 1.0], [0.0, 1.0]]))
        tensor([0.5000, 0.0000])
    """
    other = 1 - soft
    nats = -(torch.xlogy(soft, soft) + torch.xlogy(other, other))
    return (nats.flatten(1).mean(dim=1) / math.log(2)).clamp(0, 1)


def confidence(soft: Tensor) -> Tensor:
    """What `mask_uncertainty` lacks to 1, ``(N, 1, 1, 1)``, to weigh masks ``(N, 1, H, W)`` by.

    Example:
        >>> confidence(torch.full((1, 1, 2, 2), 0.5)).item()
        0.0
    """
    return (1 - mask_uncertainty(soft)).reshape(-1, 1, 1, 1)
