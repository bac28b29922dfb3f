"""The target of the alignment paper's attack: a frame around what the picture shows."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.setting import checked_share

__all__ = ["frame_map"]


def frame_map(height: int, width: int, *, border: float = 5 / 32) -> Tensor:
    """A map that is 1 along the edges and 0 inside, ``(1, 1, height, width)``.

    A frame overlaps least with the object, which is mostly in the middle.

    Args:
        height: Of the images.
        width: Of the images.
        border: How thick the frame is, as a share of the shorter side, rounded to whole pixels
            and at least one; 5 of 32 pixels in the paper.

    Example:
        >>> frame_map(3, 4)[0, 0]
        tensor([[1., 1., 1., 1.],
                [1., 0., 0., 1.],
                [1., 1., 1., 1.]])

    References:
        joo2023towards
    """
    thickness = max(1, round(checked_share("border", border) * min(height, width)))
    frame = torch.ones(1, 1, height, width)
    frame[..., thickness : height - thickness, thickness : width - thickness] = 0
    return frame
