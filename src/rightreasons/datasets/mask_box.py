"""The bounding box of each mask, and a mask moved and stretched into another box."""

from typing import NamedTuple

import torch
from torch import Tensor

from rightreasons.datasets.augmented import moved

__all__ = ["Box", "bounding_box", "in_box"]


class Box(NamedTuple):
    """Boxes ``(N,)``: first row and column, height and width; height 0 for an empty mask."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor


def bounding_box(mask: Tensor) -> Box:
    """Find the smallest box around what is not zero in each mask ``(N, C, H, W)``.

    Example:
        >>> mask = torch.zeros(1, 1, 4, 6)
        >>> mask[0, 0, 1:3, 2] = 1
        >>> [int(value) for value in bounding_box(mask)]
        [1, 2, 2, 1]
    """
    inside = (mask > 0).any(dim=1)  # (N, H, W)
    top, height = _span(inside.any(dim=2))
    left, width = _span(inside.any(dim=1))
    return Box(top=top, left=left, height=height, width=width)


def in_box(mask: Tensor, old: Box, new: Box) -> Tensor:
    """Stretch what lies in the box ``old`` of each mask into the box ``new``.

    Every pixel of the new box takes the nearest one of the old, so that no new values appear.
    What would lie outside the image is lost.

    Args:
        mask: ``(N, C, H, W)``.
        old: Boxes inside the image.
        new: Boxes of height and width from 1; they may reach over the edge.
    """
    rows, in_rows = _sources(mask.shape[2], old.top, old.height, new.top, new.height)
    columns, in_columns = _sources(mask.shape[3], old.left, old.width, new.left, new.width)
    inside = in_rows[:, None, :, None] & in_columns[:, None, None, :]
    return moved(mask, rows=rows, columns=columns) * inside


def _span(occupied: Tensor) -> tuple[Tensor, Tensor]:
    """First place and length of the span of True, ``(N, L) -> (N,), (N,)``."""
    length = occupied.shape[1]
    first = occupied.long().argmax(dim=1)
    last = length - 1 - occupied.flip(1).long().argmax(dim=1)
    return first, torch.where(occupied.any(dim=1), last - first + 1, 0)


def _sources(
    length: int, old_start: Tensor, old_size: Tensor, new_start: Tensor, new_size: Tensor
) -> tuple[Tensor, Tensor]:
    """For each place of the image, which one it is taken from, and whether it is in the box."""
    steps = torch.arange(length, device=old_start.device) - new_start[:, None]  # (N, L)
    inside = (steps >= 0) & (steps < new_size[:, None])
    # the middle of a new pixel lies in the old pixel of the same share of the box
    scaled = (2 * steps + 1) * old_size[:, None] // (2 * new_size[:, None])
    return (old_start[:, None] + scaled).clamp(0, length - 1), inside
