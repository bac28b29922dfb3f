"""Square patches in the corners of images: the oldest planted shortcut.

Corners are numbered 0 top left, 1 top right, 2 bottom left, 3 bottom right.
"""

import torch
from torch import Tensor

from rightreasons.setting import checked_number

__all__ = ["NUM_CORNERS", "all_corners_mask", "corner_mask", "place_patches"]

NUM_CORNERS = 4


def corner_mask(corners: Tensor, *, height: int, width: int, patch: int) -> Tensor:
    """Mark one corner of each image.

    Args:
        corners: ``(N,)`` corner numbers.
        height: Of the images, in pixels.
        width: Of the images, in pixels.
        patch: Side of the square, in pixels.

    Returns:
        ``(N, 1, H, W)`` booleans, True in the patch.

    Example:
        >>> corner_mask(torch.tensor([1]), height=2, width=3, patch=1).int()[0, 0]
        tensor([[0, 0, 1],
                [0, 0, 0]], dtype=torch.int32)
    """
    checked_number("patch", patch, low=1, high=min(height, width))
    rows = torch.arange(height, device=corners.device)
    columns = torch.arange(width, device=corners.device)
    at_bottom = (corners >= 2).unsqueeze(1)
    at_right = (corners % 2 == 1).unsqueeze(1)
    in_rows = torch.where(at_bottom, rows >= height - patch, rows < patch)  # (N, H)
    in_columns = torch.where(at_right, columns >= width - patch, columns < patch)  # (N, W)
    return (in_rows.unsqueeze(2) & in_columns.unsqueeze(1)).unsqueeze(1)


def all_corners_mask(*, height: int, width: int, patch: int) -> Tensor:
    """Mark the four corners at once, as ``(1, 1, H, W)`` booleans."""
    every = corner_mask(torch.arange(NUM_CORNERS), height=height, width=width, patch=patch)
    return every.any(dim=0, keepdim=True)


def place_patches(
    x: Tensor, *, corners: Tensor, colours: Tensor, patch: int
) -> tuple[Tensor, Tensor]:
    """Paint a square patch into one corner of each image.

    Args:
        x: ``(N, C, H, W)``; left as it is.
        corners: ``(N,)`` corner numbers.
        colours: ``(N,)``, the same in all channels, or ``(N, C)``.
        patch: Side of the square, in pixels.

    Returns:
        The painted images, and the mask ``(N, 1, H, W)``: 1 in the patch, where the model must
        not look.

    Example:
        >>> x, mask = place_patches(
        ...     torch.zeros(1, 3, 8, 8),
        ...     corners=torch.tensor([3]),
        ...     colours=torch.tensor([[0.5, 0.5, 0.7]]),
        ...     patch=2,
        ... )
        >>> x[0, :, 7, 7], int(mask.sum())
        (tensor([0.5000, 0.5000, 0.7000]), 4)
    """
    inside = corner_mask(corners, height=x.shape[2], width=x.shape[3], patch=patch)
    colours = colours.reshape(len(x), -1, 1, 1).to(x.dtype)
    return torch.where(inside, colours, x), inside.to(x.dtype)
