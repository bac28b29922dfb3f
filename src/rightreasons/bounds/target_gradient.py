"""Bounds of a target's gradient with respect to the logits, where the backward pass begins."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.bounds.box import Box
from rightreasons.bounds.rounding import precision
from rightreasons.bounds.softmax import probability_ends
from rightreasons.target import Target

__all__ = ["target_gradient"]


def target_gradient(logits: Box, y: Tensor, target: Target, *, outward: bool = False) -> Box:
    r"""The box of :math:`\nabla_f t` over a box of logits, ``(N, K)``.

    ===================== ==========================================================
    ``logit``             :math:`e_y`, exactly
    ``loss``              :math:`p - e_y` with bounds of the probabilities
    ``logsumexp``         :math:`p`
    ``log_probabilities`` :math:`1 - K p`
    ``margin``            :math:`e_y - e_r`, where ``r`` is any class that may come second
    ===================== ==========================================================

    Args:
        logits: ``(N, K)``.
        y: Labels ``(N,)``.
        target: What is differentiated.
        outward: Whether to hold despite rounding.
    """
    own = torch.zeros_like(logits.center).scatter_(1, y[:, None], 1.0)
    if target is Target.LOGIT:
        return Box.exact(own)
    if target is Target.MARGIN:
        low, high = _runner_up(logits, own.bool(), outward=outward)
        return Box.between(own - high, own - low)
    low, high = probability_ends(logits, outward=outward)
    if target is Target.LOSS:
        low, high = low - own, high - own
    elif target is Target.LOG_PROBABILITIES:
        num_classes = logits.center.shape[1]
        low, high = 1 - num_classes * high, 1 - num_classes * low
    if outward and target is not Target.LOGSUMEXP:
        # The model's own gradient is such a difference too.
        slack = 4 * precision(low) * (1 + torch.maximum(low.abs(), high.abs()))
        slack = slack * own if target is Target.LOSS else slack
        low, high = low - slack, high + slack
    return Box.between(low, high, outward=outward)


def _runner_up(logits: Box, own: Tensor, *, outward: bool) -> tuple[Tensor, Tensor]:
    """For each class 1 where it is the largest of the others for certain, and where it may be."""
    lower, upper = (end.masked_fill(own, -torch.inf) for end in logits.ends(outward=outward))
    possible = (upper >= lower.amax(dim=1, keepdim=True)) & ~own
    first, place = upper.max(dim=1, keepdim=True)
    second = upper.scatter(1, place, -torch.inf).amax(dim=1, keepdim=True)
    is_first = torch.zeros_like(own).scatter_(1, place, True)
    certain = (lower > torch.where(is_first, second, first)) & ~own
    return certain.to(lower.dtype), possible.to(lower.dtype)
