"""Fewer masks and wrong masks: settings that every data set with masks takes."""

import inspect
from typing import NamedTuple

import torch
from torch import Tensor

from rightreasons.core.checks import check_choice, check_fraction, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.augmented import moved
from rightreasons.datasets.dataset import Dataset, Splits
from rightreasons.datasets.splitting import stratified, with_training
from rightreasons.datasets.wrappers import change_masks, keep_masks, selected
from rightreasons.errors import InvalidSettingError

__all__ = [
    "CORRUPTIONS",
    "KEEPS",
    "MASK_SETTINGS",
    "Box",
    "bounding_box",
    "corrupt_masks",
    "in_box",
    "mask_count",
    "mask_fraction",
    "with_mask_settings",
]


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


CHUNK = 500


def mask_count(splits: Splits, *, num_masks: int, seed: int = 0) -> Splits:
    """Keep so many of the training masks that are not empty.

    They are drawn at random and stratified by label. All other training samples get a mask of
    zeros and ``annotated=False``, those too whose mask was empty before: nobody looked at them.
    For one seed fewer masks are among more. Validation and test data stay as they are. All
    training masks are read once.

    Args:
        splits: A data set with masks. Left as it is.
        num_masks: How many, from 0; no more than there are.
        seed: Of the draw.

    Example:
        >>> from rightreasons.datasets import decoy_digits
        >>> few = mask_count(decoy_digits(), num_masks=20)
        >>> len(few.train), int(few.train.batch.annotated.sum())
        (1000, 20)
    """
    num_masks = check_integer("num_masks", num_masks, low=0)
    if not splits.train.has_masks:
        raise InvalidSettingError(
            f"Expected a data set with masks, but {splits.card.name!r} has none in training."
        )
    stream = random_stream(seed, "mask_count")

    def fewer(train: Dataset) -> Dataset:
        masked = _masked_places(train)
        if num_masks > len(masked):
            raise InvalidSettingError(
                f"Expected `num_masks` of at most {len(masked)}, the training masks of "
                f"{splits.card.name!r} that are not empty, but got {num_masks}."
            )
        kept, _ = stratified(train.labels[masked], sizes=[num_masks], stream=stream)
        return keep_masks(train, masked[kept], key=f"mask_count {num_masks} {seed}")

    return with_training(splits, fewer, said=f"{num_masks} training masks are kept.")


def _masked_places(data: Dataset) -> Tensor:
    places = torch.arange(len(data))
    found = [
        rows[mask.flatten(1).any(dim=1).cpu()]
        for rows in torch.split(places, CHUNK)
        if (mask := data.take(rows).mask) is not None
    ]
    return torch.cat(found) if found else places[:0]


KEEPS = ("masks", "data")


def mask_fraction(splits: Splits, *, fraction: float, keep: str = "masks", seed: int = 0) -> Splits:
    """Keep the masks of a share of the training samples, or these samples alone.

    The share is drawn at random and stratified by label. For one seed the samples of a smaller
    share are among those of a larger one. Validation and test data stay as they are.

    Differs from the paper: its code draws anew for every share; and on Decoy DERM it throws the
    reduced masks away, so that every share is all of them.

    Args:
        splits: A data set; with masks, if ``keep="masks"``. Left as it is.
        fraction: From 0 to 1; of the training samples.
        keep: ``"masks"``: all samples stay, those outside the share get a mask of zeros and
            ``annotated=False``; ``"data"``: the training set is cut to the share.
        seed: Of the draw.

    Example:
        >>> from rightreasons.datasets import decoy_digits
        >>> few = mask_fraction(decoy_digits(), fraction=0.2)
        >>> len(few.train), int(few.train.batch.annotated.sum())
        (1000, 200)
    """
    fraction = check_fraction("fraction", fraction)
    check_choice("keep", keep, KEEPS)
    stream = random_stream(seed, "mask_fraction")
    labels = splits.train.labels
    share = round(fraction * len(labels))
    kept, _ = stratified(labels, sizes=[share], stream=stream)
    if keep == "data":
        if not share:
            raise InvalidSettingError(
                f"Expected `fraction` to leave training samples, but {fraction:g} of "
                f"{len(labels)} is none. Choose a larger share, or keep='masks'."
            )
        said = f"Trained on {fraction:.0%} of the samples."
        return with_training(splits, lambda train: selected(train, kept), said=said)
    if not splits.train.has_masks:
        raise InvalidSettingError(
            f"Expected a data set with masks, but {splits.card.name!r} has none in training."
        )

    def fewer(train: Dataset) -> Dataset:
        return keep_masks(train, kept, key=f"mask_fraction {fraction} {seed}")

    return with_training(splits, fewer, said=f"{fraction:.0%} of the training masks are kept.")


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
    check_choice("kind", kind, CORRUPTIONS)
    correct = check_fraction("correct", correct)
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
        return change_masks(train, change, key=f"corrupt_masks {kind} {correct} {seed}")

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


_keep_fraction = mask_fraction  # the setting below has the function's name


def with_mask_settings(
    splits: Splits,
    *,
    mask_fraction: float | None = None,
    mask_fraction_keep: str = "masks",
    mask_corruption: str | None = None,
    mask_correct: float = 0.0,
    num_masks: int | None = None,
    seed: int = 0,
) -> Splits:
    """Corrupt and reduce the training masks, as configurations ask for it.

    Args:
        splits: A data set with masks.
        mask_fraction: Share of the training samples that keep their masks; None for all. See
            `mask_fraction`.
        mask_fraction_keep: Its ``keep``.
        mask_corruption: What becomes of the masks, before they are reduced; None for nothing. See
            `corrupt_masks`.
        mask_correct: Its ``correct``.
        num_masks: How many masks are kept in the end, None for all. See `mask_count`.
        seed: Of all three.
    """
    if mask_corruption is not None:
        splits = corrupt_masks(splits, kind=mask_corruption, correct=mask_correct, seed=seed)
    elif mask_correct != 0.0:
        raise InvalidSettingError(
            f"Expected `mask_corruption` beside `mask_correct`, but got {mask_correct!r} alone. "
            f"Choose one of {', '.join(CORRUPTIONS)}."
        )
    if mask_fraction is not None:
        splits = _keep_fraction(splits, fraction=mask_fraction, keep=mask_fraction_keep, seed=seed)
    elif mask_fraction_keep != "masks":
        raise InvalidSettingError(
            f"Expected `mask_fraction` beside `mask_fraction_keep`, but got "
            f"{mask_fraction_keep!r} alone. Pass the share to keep, from 0 to 1."
        )
    return splits if num_masks is None else mask_count(splits, num_masks=num_masks, seed=seed)


MASK_SETTINGS = tuple(
    name
    for name in inspect.signature(with_mask_settings).parameters
    if name not in ("splits", "seed")
)
"""Names of the settings, for messages."""
