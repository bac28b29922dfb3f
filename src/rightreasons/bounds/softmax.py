"""Bounds of class probabilities over a box of logits."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.bounds.box import Box
from rightreasons.bounds.rounding import precision, smallest

__all__ = ["log_sum_of_others", "probability_ends"]


def probability_ends(logits: Box, *, outward: bool = False) -> tuple[Tensor, Tensor]:
    r"""The smallest and the largest probability of each class.

    A class is likeliest where its own logit is highest and all others are lowest:

    .. math:: p_k \le \sigma\Big(u_k - \log \sum_{j \ne k} e^{l_j}\Big), \quad
              p_k \ge \sigma\Big(l_k - \log \sum_{j \ne k} e^{u_j}\Big)

    Example:
        >>> low, high = probability_ends(Box(torch.zeros(1, 2), torch.zeros(1, 2)))
        >>> low, high
        (tensor([[0.5000, 0.5000]]), tensor([[0.5000, 0.5000]]))
    """
    lower, upper = logits.ends(outward=outward)
    low = torch.sigmoid(lower - log_sum_of_others(upper))
    high = torch.sigmoid(upper - log_sum_of_others(lower))
    if not outward:
        return low, high
    farthest = logits.magnitude.amax(dim=1, keepdim=True)
    # The exponents err by a few units of the logits' magnitude, and the sum once for each class.
    error = 2 * (low.shape[1] + 8) * precision(low) * (1 + farthest)
    least = smallest(low)
    return (low - (low * error + least)).clamp(min=0), (high + (high * error + least)).clamp(max=1)


def log_sum_of_others(logits: Tensor) -> Tensor:
    r"""For each class :math:`\log \sum_{j \ne k} e^{f_j}`, without a matrix of pairs.

    For all but the largest logit the own share of the sum is at most a half and can be taken out;
    the sum without the largest is formed anew.
    """
    total = torch.logsumexp(logits, dim=1, keepdim=True)
    is_first = torch.zeros_like(logits, dtype=torch.bool)
    is_first.scatter_(1, logits.argmax(dim=1, keepdim=True), True)
    without_first = torch.logsumexp(logits.masked_fill(is_first, -torch.inf), dim=1, keepdim=True)
    share = torch.exp(logits - total).masked_fill(is_first, 0)
    return torch.where(is_first, without_first, total + torch.log1p(-share))
