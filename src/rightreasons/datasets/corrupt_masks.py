"""Wrong masks, of any data set of images: how exact must annotation be?"""

import torch
from torch import Tensor

from rightreasons.datasets.dataset import Dataset, Splits
from rightreasons.datasets.mask_box import Box, bounding_box, in_box
from rightreasons.datasets.random_stream import random_stream
from rightreasons.datasets.remasked import remasked
from rightreasons.datasets.splitting import stratified
from rightreasons.datasets.training_part import checked_fraction, with_training
from rightreasons.errors import InvalidSettingError
from rightreasons.setting import checked_choice

__all__ = ["CORRUPTIONS", "corrupt_masks"]

CORRUPTIONS = ("misposition", "shift", "shrink", "dilation")


def corrupt_masks(splits: Splits, *, kind: str, correct: float = 0.0, seed: int = 0) -> Splits:
    """Make the masks of a share of the training samples wrong.

    What happens to a mask happens to its bounding box, and the mask goes with it:

    =============== =========================================================================
    ``misposition`` to a random place of the image where it does not touch where it was
    ``shift``       towards the middle of the image, up or down and sideways, by 1 pixel to
                    one less than its sides
    ``shrink``      to sides from 1 pixel to one less; the side nearest to an edge of the
                    image stays
    ``dilation``    to sides from one more pixel to twice as long, growing away from the edge
                    of the image it is nearest to; what would lie outside is lost
    =============== =========================================================================

    One number is drawn for both sides of a box, so squares stay squares. The share that stays
    right is stratified by label, and for one seed the right masks of a smaller share are among
    those of a larger one. Empty masks, validation and test data stay as they are.

    Differs from the paper: it knows squares in corners only, and puts a misplaced one into the
    middle of the image; here any place that is free will do.

    Args:
        splits: Images with masks. Left as they are.
        kind: One of the four.
        correct: From 0 to 1: the share of the training samples whose masks stay right.
        seed: Of the share and the places.

    Example:
        >>> from rightreasons.datasets import decoy_digits
        >>> wide = corrupt_masks(decoy_digits(patch=3), kind="dilation", correct=0.5)
        >>> int((wide.train.batch.mask.sum(dim=(1, 2, 3)) > 9).sum())
        500
    """
    checked_choice("kind", kind, CORRUPTIONS)
    correct = checked_fraction("correct", correct)
    card, labels = splits.card, splits.train.labels
    if len(card.shape) != 3 or not splits.train.has_masks:
        raise InvalidSettingError(
            f"Expected images of shape (C, H, W) with masks, but {card.name!r} has samples of "
            f"shape {card.shape} and {'' if splits.train.has_masks else 'no '}masks in training."
        )
    stream = random_stream(seed, "corrupt_masks", "share")
    _, chosen = stratified(labels, sizes=[round(correct * len(labels))], stream=stream)
    wrong = torch.zeros(len(labels), dtype=torch.bool)
    wrong[chosen] = True
    draws = torch.from_numpy(random_stream(seed, "corrupt_masks", kind).random(len(labels)))

    def change(mask: Tensor, annotated: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        full = mask.expand(-1, -1, *card.shape[1:]).clone()
        rows = (wrong[places] & (full > 0).flatten(1).any(dim=1)).nonzero()[:, 0]
        if len(rows):
            full[rows] = _corrupted(full[rows], kind, draws[places[rows]])
        return full, annotated

    def corrupted(train: Dataset) -> Dataset:
        return remasked(train, change, key=f"corrupt_masks {kind} {correct} {seed}")

    said = f"{1 - correct:.0%} of the training masks are corrupted: {kind}."
    return with_training(splits, corrupted, said=said)


def _corrupted(mask: Tensor, kind: str, draw: Tensor) -> Tensor:
    old = bounding_box(mask)
    height, width = mask.shape[2:]
    if kind == "misposition":
        top, left = _free_place(old, height, width, draw)
        return in_box(mask, old, old._replace(top=top, left=left))
    along_height = _changed_span(old.top, old.height, height, kind, draw)
    along_width = _changed_span(old.left, old.width, width, kind, draw)
    new = Box(
        top=along_height[0], left=along_width[0], height=along_height[1], width=along_width[1]
    )
    return in_box(mask, old, new)


def _changed_span(
    start: Tensor, size: Tensor, length: int, kind: str, draw: Tensor
) -> tuple[Tensor, Tensor]:
    """Start and size of the new box along one side of the image."""
    at_start = 2 * start + size <= length  # nearer to the upper or left edge
    if kind == "shift":
        step = 1 + (draw * (size - 1).clamp(min=1)).long()
        return torch.where(at_start, start + step, start - step), size
    choices = size if kind == "dilation" else size - 1
    new_size = 1 + (draw * choices).long() + (size if kind == "dilation" else 0)
    return torch.where(at_start, start, start + size - new_size), new_size


def _free_place(box: Box, height: int, width: int, draw: Tensor) -> tuple[Tensor, Tensor]:
    """A place for each box that is in the image and neither covers nor touches the old one."""
    rows = torch.arange(height, device=draw.device)
    columns = torch.arange(width, device=draw.device)
    fits_down = rows <= (height - box.height)[:, None]
    fits_right = columns <= (width - box.width)[:, None]
    far_down = (rows - box.top[:, None]).abs() > box.height[:, None]
    far_right = (columns - box.left[:, None]).abs() > box.width[:, None]
    fits = fits_down[:, :, None] & fits_right[:, None, :]
    free = (fits & (far_down[:, :, None] | far_right[:, None, :])).flatten(1)
    count = free.sum(dim=1)
    if not bool((count > 0).all()):
        which = int((count == 0).long().argmax())
        raise InvalidSettingError(
            f"Expected masks that leave room to be put elsewhere, but got one of "
            f"{int(box.height[which])}x{int(box.width[which])} pixels in an image of "
            f"{height}x{width}. Choose another kind of corruption than 'misposition'."
        )
    place = (draw * count).long()  # the number of the free place
    found = (free.cumsum(dim=1) > place[:, None]).long().argmax(dim=1)
    return found // width, found % width
