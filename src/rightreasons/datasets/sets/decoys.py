"""Patches in corners, whose colour tells the label in training data."""

import numpy as np
import torch
from torch import Tensor

from rightreasons.core.checks import check_choice, check_integer
from rightreasons.types import Batch

__all__ = [
    "GREYS",
    "NUM_CORNERS",
    "RULES",
    "all_corners_mask",
    "corner_mask",
    "decoy_batch",
    "draw_colours",
    "place_patches",
]

NUM_CORNERS = 4
RULES = ("label", "any", "wrong")
GREYS: dict[str, tuple[float, ...]] = {
    "ross": tuple((255 - 25 * digit) / 255 for digit in range(10)),
    "faint": tuple((255 - 25 * digit) // 3 / 255 for digit in range(10)),
}
"""Grey values of the ten digits: of Ross et al. 2017, and a third of them, rounded down."""


def decoy_batch(
    x: Tensor, y: Tensor, *, palette: Tensor, patch: int, rule: str, stream: np.random.Generator
) -> Batch:
    """Plant a patch in a random corner of each image, its colour by a rule.

    The corners do not depend on the rule: with the same stream, two rules differ in the colours
    alone.

    Args:
        x: Images ``(N, C, H, W)``.
        y: Labels ``(N,)``.
        palette: One colour for each label, ``(K,)`` or ``(K, C)``.
        patch: Side of the patch, in pixels.
        rule: How a colour depends on the label, one of `RULES`.
        stream: Random numbers for corners and colours.

    Returns:
        The samples with the patch as mask and the label as group.
    """
    corners = torch.from_numpy(stream.integers(NUM_CORNERS, size=len(y)))
    numbers = draw_colours(y, num_colours=len(palette), rule=rule, stream=stream)
    x, mask = place_patches(x, corners=corners, colours=palette[numbers], patch=patch)
    return Batch(x=x, y=y, mask=mask, group=y)


def corner_mask(corners: Tensor, *, height: int, width: int, patch: int) -> Tensor:
    """Mark one corner of each image.

    Args:
        corners: ``(N,)`` corner numbers.
        height: Height of the images in pixels.
        width: Width of the images in pixels.
        patch: Side of the square, in pixels.

    Returns:
        ``(N, 1, H, W)`` booleans, True in the patch.

    Example:
        >>> corner_mask(torch.tensor([1]), height=2, width=3, patch=1).int()[0, 0]
        tensor([[0, 0, 1],
                [0, 0, 0]], dtype=torch.int32)
    """
    check_integer("patch", patch, low=1, high=min(height, width))
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
        x: Images ``(N, C, H, W)``; not modified.
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


def draw_colours(y: Tensor, *, num_colours: int, rule: str, stream: np.random.Generator) -> Tensor:
    """Draw the number of each sample's colour.

    - ``label``: the label's own colour, so that the colour tells the label.
    - ``any``: uniform over all colours, so that the colour tells nothing.
    - ``wrong``: uniform over the other colours, so that the colour tells what the label is *not*.

    Args:
        y: Labels ``(N,)``.
        num_colours: Number of colours, at least two.
        rule: One of `RULES`.
        stream: Random numbers.

    Returns:
        ``(N,)`` numbers from 0 to ``num_colours - 1``.
    """
    check_choice("rule", rule, RULES)
    if rule == "label":
        return y
    if rule == "any":
        return torch.from_numpy(stream.integers(num_colours, size=len(y)))
    return (y + torch.from_numpy(stream.integers(1, num_colours, size=len(y)))) % num_colours
