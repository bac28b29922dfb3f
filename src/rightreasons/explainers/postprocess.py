"""From an attribution to a map: sign, channels and scale, in this order."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rightreasons.setting import checked_choice

__all__ = ["postprocessed"]


def postprocessed(
    attribution: Tensor,
    *,
    sign: Literal["absolute", "positive", "signed"] = "absolute",
    channels: Literal["sum", "keep"] = "sum",
    normalise: Literal["l1", "max"] | None = None,
    channel_axis: int = 1,
) -> Tensor:
    """Make a map of an attribution, sample by sample; differentiable.

    The alignment paper's robustness compares ``normalise="max"`` maps of absolute values.

    Args:
        attribution: ``(N, *S)``.
        sign: Take absolute values, the positive part, or leave signs alone.
        channels: Sum over the channels, which leaves an axis of length 1, or keep them. Numeric
            columns, ``(N, D)``, have no channels and are kept.
        normalise: Let absolute values sum to 1 (``"l1"``) or reach 1 (``"max"``); a map of zeros
            stays one.
        channel_axis: Where channels are; -1 for embeddings ``(N, T, E)``.

    Example:
        >>> attribution = torch.tensor([[[[1.0, -2.0]], [[3.0, 2.0]]]])  # two channels
        >>> postprocessed(attribution, normalise="max")
        tensor([[[[1., 1.]]]])
        >>> postprocessed(attribution, sign="signed")
        tensor([[[[4., 0.]]]])
    """
    checked_choice("sign", sign, ("absolute", "positive", "signed"))
    checked_choice("channels", channels, ("sum", "keep"))
    checked_choice("normalise", normalise, (None, "l1", "max"))
    if sign != "signed":
        attribution = attribution.abs() if sign == "absolute" else attribution.clamp(min=0)
    if channels == "sum" and attribution.ndim > 2:
        attribution = attribution.sum(dim=channel_axis, keepdim=True)
    if normalise is None:
        return attribution
    sizes = attribution.abs().flatten(1)
    scale = sizes.sum(dim=1) if normalise == "l1" else sizes.amax(dim=1)
    scale = torch.where(scale == 0, 1, scale)
    return attribution / scale.reshape(-1, *[1] * (attribution.ndim - 1))
