"""The rules by which a planted colour tells the label, and the greys of the decoy papers."""

import numpy as np
import torch
from torch import Tensor

from rightreasons.datasets.corner_patch import NUM_CORNERS, place_patches
from rightreasons.setting import checked_choice
from rightreasons.types import Batch

__all__ = ["GREYS", "RULES", "decoy_batch", "drawn_colours"]

GREYS: dict[str, tuple[float, ...]] = {
    "ross": tuple((255 - 25 * digit) / 255 for digit in range(10)),
    "faint": tuple((255 - 25 * digit) // 3 / 255 for digit in range(10)),
}
"""Grey values of the ten digits: Ross et al. 2017, and a third of them in whole grey levels."""

RULES = ("label", "any", "wrong")


def drawn_colours(y: Tensor, *, num_colours: int, rule: str, stream: np.random.Generator) -> Tensor:
    """Choose the number of each sample's colour.

    ========= ==================================================================
    ``label`` the label's own colour: the colour tells the label
    ``any``   uniform over all colours: the colour tells nothing
    ``wrong`` uniform over the others: the colour tells what the label is *not*
    ========= ==================================================================

    Args:
        y: Labels ``(N,)``.
        num_colours: How many there are, at least two.
        rule: One of `RULES`.
        stream: Where the numbers come from.

    Returns:
        ``(N,)`` numbers from 0 to ``num_colours - 1``.
    """
    checked_choice("rule", rule, RULES)
    if rule == "label":
        return y
    if rule == "any":
        return torch.from_numpy(stream.integers(num_colours, size=len(y)))
    return (y + torch.from_numpy(stream.integers(1, num_colours, size=len(y)))) % num_colours


def decoy_batch(
    x: Tensor, y: Tensor, *, palette: Tensor, patch: int, rule: str, stream: np.random.Generator
) -> Batch:
    """Plant a patch in a random corner of each image, its colour by a rule.

    The corners do not depend on the rule, so that two rules with the same stream differ in the
    colours alone.

    Args:
        x: Images ``(N, C, H, W)``.
        y: Labels ``(N,)``.
        palette: One colour a label, ``(K,)`` or ``(K, C)``.
        patch: Side of the patch, in pixels.
        rule: See `drawn_colours`.
        stream: Where the corners and colours come from.

    Returns:
        The samples with the patch as mask and the label as group.
    """
    corners = torch.from_numpy(stream.integers(NUM_CORNERS, size=len(y)))
    numbers = drawn_colours(y, num_colours=len(palette), rule=rule, stream=stream)
    x, mask = place_patches(x, corners=corners, colours=palette[numbers], patch=patch)
    return Batch(x=x, y=y, mask=mask, group=y)
