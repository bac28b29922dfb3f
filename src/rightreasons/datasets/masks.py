"""Masks of any data set: fewer, wrong ones, where they lie, and images without what they cover."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.core.checks import check_choice, check_fraction, check_integer
from rightreasons.core.rng import random_stream
from rightreasons.datasets.augmented import gather_pixels
from rightreasons.datasets.dataset import Dataset, Splits
from rightreasons.datasets.splitting import change_training, stratified_split
from rightreasons.datasets.wrappers import change_masks, keep_masks, select
from rightreasons.errors import InvalidSettingError

__all__ = [
    "CORRUPTIONS",
    "KEEPS",
    "Box",
    "Extents",
    "bounding_box",
    "corrupt_masks",
    "extent_of",
    "extents_of",
    "fill_in",
    "mask_count",
    "mask_fraction",
    "move_to_box",
    "stretch",
    "windows_of",
]

KEEPS = ("masks", "data")
CORRUPTIONS = ("misposition", "shift", "shrink", "dilation")
CHUNK = 500


def mask_fraction(splits: Splits, *, fraction: float, keep: str = "masks", seed: int = 0) -> Splits:
    """Keep the masks of a fraction of the training samples, or these samples alone.

    The fraction is drawn at random and stratified by label. For one seed, a smaller fraction is
    part of a larger one. Validation and test data do not change.

    Differs from the paper: its code draws again for every fraction. On Decoy DERM it discards the
    reduced masks, so that every fraction means all masks.

    Args:
        splits: A data set; it needs masks if ``keep="masks"``. Not modified.
        fraction: Fraction of the training samples, from 0 to 1.
        keep: ``"masks"``: all samples stay, and the others get a mask of zeros and
            ``annotated=False``; ``"data"``: the others are removed.
        seed: Random seed for the draw.

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
    num_kept = round(fraction * len(labels))
    kept, _ = stratified_split(labels, sizes=[num_kept], stream=stream)
    if keep == "data":
        if not num_kept:
            raise InvalidSettingError(
                f"Expected `fraction` to leave training samples, but {fraction:g} of "
                f"{len(labels)} is none. Choose a larger share, or keep='masks'."
            )
        note = f"Trained on {fraction:.0%} of the samples."
        return change_training(splits, lambda train: select(train, kept), note=note)
    _require_masks(splits)

    def change(train: Dataset) -> Dataset:
        return keep_masks(train, kept, key=f"mask_fraction {fraction} {seed}")

    return change_training(splits, change, note=f"{fraction:.0%} of the training masks are kept.")


def mask_count(splits: Splits, *, num_masks: int, seed: int = 0) -> Splits:
    """Keep a number of the training masks that are not empty.

    They are drawn at random and stratified by label. All other training samples get a mask of
    zeros and ``annotated=False``, also those whose mask was empty before. For one seed, fewer
    masks are part of more masks. Validation and test data do not change. All training masks are
    read once.

    Args:
        splits: A data set with masks. Not modified.
        num_masks: Number of masks, from 0 to the number of masks that are not empty.
        seed: Random seed for the draw.

    Example:
        >>> from rightreasons.datasets import decoy_digits
        >>> few = mask_count(decoy_digits(), num_masks=20)
        >>> len(few.train), int(few.train.batch.annotated.sum())
        (1000, 20)
    """
    num_masks = check_integer("num_masks", num_masks, low=0)
    _require_masks(splits)
    stream = random_stream(seed, "mask_count")

    def change(train: Dataset) -> Dataset:
        masked = _find_masked(train)
        if num_masks > len(masked):
            raise InvalidSettingError(
                f"Expected `num_masks` of at most {len(masked)}, the training masks of "
                f"{splits.card.name!r} that are not empty, but got {num_masks}."
            )
        kept, _ = stratified_split(train.labels[masked], sizes=[num_masks], stream=stream)
        return keep_masks(train, masked[kept], key=f"mask_count {num_masks} {seed}")

    return change_training(splits, change, note=f"{num_masks} training masks are kept.")


def corrupt_masks(splits: Splits, *, kind: str, correct: float = 0.0, seed: int = 0) -> Splits:
    """Make the masks of a fraction of the training samples wrong.

    The bounding box of a mask changes, and the mask is moved or stretched with it:

    - ``misposition``: to a random position in the image that touches neither the old box nor its
      mirror images: a patch in one corner may lie in any other. Where these leave no room, it may
      touch the mirror images.
    - ``shift``: towards the middle of the image, up or down and sideways, by 1 pixel to one less
      than its sides.
    - ``shrink``: to sides from 1 pixel to one less. The side nearest to an edge of the image
      stays.
    - ``dilation``: to sides from one more pixel to twice as long. The box grows away from the
      nearest edge of the image; pixels outside the image are lost.

    One number is drawn for both sides of a box, so squares stay squares. The masks that stay
    right are stratified by label. For one seed, a smaller fraction of right masks is part of a
    larger one. Empty masks, validation and test data do not change.

    Differs from the paper: it has squares in corners only, and moves them to the middle of the
    image, where some still touch the lower right corner. Here any free position is possible.

    Args:
        splits: Images with masks. Not modified.
        kind: One of the four.
        correct: Fraction of the training samples whose masks stay right, from 0 to 1.
        seed: Random seed for the fraction and the changes.

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
    _, chosen = stratified_split(labels, sizes=[round(correct * len(labels))], stream=stream)
    is_wrong = torch.zeros(len(labels), dtype=torch.bool)
    is_wrong[chosen] = True
    draws = torch.from_numpy(random_stream(seed, "corrupt_masks", kind).random(len(labels)))

    def corrupt(mask: Tensor, annotated: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
        full = mask.expand(-1, -1, *card.shape[1:]).clone()
        rows = (is_wrong[indices] & (full > 0).flatten(1).any(dim=1)).nonzero()[:, 0]
        if len(rows):
            full[rows] = _corrupt(full[rows], kind, draws[indices[rows]])
        return full, annotated

    def change(train: Dataset) -> Dataset:
        return change_masks(train, corrupt, key=f"corrupt_masks {kind} {correct} {seed}")

    note = f"{1 - correct:.0%} of the training masks are corrupted: {kind}."
    return change_training(splits, change, note=note)


class Box(NamedTuple):
    """Boxes ``(N,)``: first row and column, height and width; height 0 for an empty mask."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor


def bounding_box(mask: Tensor) -> Box:
    """Find the smallest box around the non-zero pixels of each mask ``(N, C, H, W)``.

    Example:
        >>> mask = torch.zeros(1, 1, 4, 6)
        >>> mask[0, 0, 1:3, 2] = 1
        >>> [int(value) for value in bounding_box(mask)]
        [1, 2, 2, 1]
    """
    inside = (mask > 0).any(dim=1)  # (N, H, W)
    top, height = _find_span(inside.any(dim=2))
    left, width = _find_span(inside.any(dim=1))
    return Box(top=top, left=left, height=height, width=width)


def move_to_box(mask: Tensor, old: Box, new: Box) -> Tensor:
    """Stretch the content of the box ``old`` of each mask into the box ``new``.

    Every pixel of the new box takes the value of the nearest pixel of the old box, so that no new
    values appear. Pixels outside the image are lost.

    Args:
        mask: ``(N, C, H, W)``.
        old: Boxes inside the image.
        new: Boxes of height and width from 1; they may reach over the edge.
    """
    rows, in_rows = _source_pixels(mask.shape[2], old.top, old.height, new.top, new.height)
    columns, in_columns = _source_pixels(mask.shape[3], old.left, old.width, new.left, new.width)
    inside = in_rows[:, None, :, None] & in_columns[:, None, None, :]
    return gather_pixels(mask, rows=rows, columns=columns) * inside


def _require_masks(splits: Splits) -> None:
    if not splits.train.has_masks:
        raise InvalidSettingError(
            f"Expected a data set with masks, but {splits.card.name!r} has none in training."
        )


def _find_masked(data: Dataset) -> Tensor:
    """The indices of the samples whose masks are not empty."""
    indices = torch.arange(len(data))
    masked = [
        rows[mask.flatten(1).any(dim=1).cpu()]
        for rows in torch.split(indices, CHUNK)
        if (mask := data.take(rows).mask) is not None
    ]
    return torch.cat(masked) if masked else indices[:0]


def _corrupt(mask: Tensor, kind: str, draw: Tensor) -> Tensor:
    old = bounding_box(mask)
    height, width = mask.shape[2:]
    if kind == "misposition":
        top, left = _free_position(old, height, width, draw)
        return move_to_box(mask, old, old._replace(top=top, left=left))
    new_top, new_height = _change_span(old.top, old.height, height, kind, draw)
    new_left, new_width = _change_span(old.left, old.width, width, kind, draw)
    new = Box(top=new_top, left=new_left, height=new_height, width=new_width)
    return move_to_box(mask, old, new)


def _change_span(
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


def _free_position(box: Box, height: int, width: int, draw: Tensor) -> tuple[Tensor, Tensor]:
    """Draw a position for each box, inside the image, touching neither it nor its mirror images."""
    rows = torch.arange(height, device=draw.device)
    columns = torch.arange(width, device=draw.device)
    fits_down = rows <= (height - box.height)[:, None]
    fits_right = columns <= (width - box.width)[:, None]
    fits = fits_down[:, :, None] & fits_right[:, None, :]
    below, beside = height - box.top - box.height, width - box.left - box.width
    apart = [
        _is_apart(rows, columns, box._replace(top=top, left=left))
        for top in (box.top, below)
        for left in (box.left, beside)
    ]
    alone = (fits & apart[0]).flatten(1)
    free = (fits & torch.stack(apart).all(dim=0)).flatten(1)
    free = torch.where(free.any(dim=1, keepdim=True), free, alone)
    count = free.sum(dim=1)
    if not bool((count > 0).all()):
        which = int((count == 0).long().argmax())
        raise InvalidSettingError(
            f"Expected masks that leave room to be put elsewhere, but got one of "
            f"{int(box.height[which])}x{int(box.width[which])} pixels in an image of "
            f"{height}x{width}. Choose another kind of corruption than 'misposition'."
        )
    number = (draw * count).long()
    # the pixel at which the running count of free positions first exceeds the drawn number
    pixel = (free.cumsum(dim=1) > number[:, None]).long().argmax(dim=1)
    return pixel // width, pixel % width


def _is_apart(rows: Tensor, columns: Tensor, box: Box) -> Tensor:
    """Whether a box of the same size at each position touches none of these, ``(N, H, W)``."""
    far_down = (rows - box.top[:, None]).abs() > box.height[:, None]
    far_right = (columns - box.left[:, None]).abs() > box.width[:, None]
    return far_down[:, :, None] | far_right[:, None, :]


def _find_span(occupied: Tensor) -> tuple[Tensor, Tensor]:
    """First index and length of the span of True, ``(N, L) -> (N,), (N,)``."""
    length = occupied.shape[1]
    first = occupied.long().argmax(dim=1)
    last = length - 1 - occupied.flip(1).long().argmax(dim=1)
    return first, torch.where(occupied.any(dim=1), last - first + 1, 0)


def _source_pixels(
    length: int, old_start: Tensor, old_size: Tensor, new_start: Tensor, new_size: Tensor
) -> tuple[Tensor, Tensor]:
    """For each pixel along a side: the old pixel it takes, and whether it is in the new box."""
    steps = torch.arange(length, device=old_start.device) - new_start[:, None]  # (N, L)
    inside = (steps >= 0) & (steps < new_size[:, None])
    # in integers: the old pixel at the same relative position as the centre of the new pixel
    scaled = (2 * steps + 1) * old_size[:, None] // (2 * new_size[:, None])
    return (old_start[:, None] + scaled).clamp(0, length - 1), inside


class Extents(NamedTuple):
    """Where masks lie.

    Args:
        ends: For rows and for columns the first and the last masked place, ``(N,)`` each.
        has_mask: Which masks are not empty, ``(N,)``.
    """

    ends: tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]
    has_mask: Tensor


def extents_of(x: Tensor, mask: Tensor) -> Extents:
    """Where the masks ``(N, *M)`` of images ``(N, C, H, W)`` lie, to which they broadcast."""
    mask = mask.expand(-1, -1, *x.shape[2:])
    rows, columns = (mask.amax(dim=(1, across)) for across in (3, 2))
    return Extents((extent_of(rows), extent_of(columns)), (rows > 0).any(dim=1))


def windows_of(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Neighbouring rows and columns that hold all masked pixels of a sample, ``(N, h), (N, w)``."""
    # Masks are nowhere negative, so that a sum is 0 where all are. It is faster than the largest.
    flat = mask.sum(dim=1) if mask.shape[1] > 1 else mask[:, 0]
    rows, columns = (_window(flat.sum(dim=across) > 0) for across in (2, 1))
    return rows, columns


def _window(is_masked: Tensor) -> Tensor:
    """Neighbouring places that hold every masked one of a sample, ``(N, L) -> (N, l)``."""
    first, last = _ends(is_masked)
    any_masked = is_masked.any(dim=1)
    size = int(torch.where(any_masked, last - first + 1, 1).max()) if len(is_masked) else 1
    first = torch.where(any_masked, first, 0).clamp(max=is_masked.shape[1] - size)
    return first[:, None] + torch.arange(size, device=is_masked.device)


def extent_of(profile: Tensor) -> tuple[Tensor, Tensor]:
    """First and last place with at least half of the mask's largest value, ``(N,)`` each."""
    return _ends((profile >= profile.amax(dim=1, keepdim=True) / 2) & (profile > 0))


def _ends(places: Tensor) -> tuple[Tensor, Tensor]:
    first = places.long().argmax(dim=1)
    return first, places.shape[1] - 1 - places.flip(1).long().argmax(dim=1)


def stretch(places: Tensor, own: Sequence[Tensor], donor: Sequence[Tensor]) -> Tensor:
    """For each place of the samples the place in the donor's box, ``(N, l)``."""
    size, donor_size = own[1] - own[0] + 1, donor[1] - donor[0] + 1
    scaled = (2 * (places - own[0][:, None]) + 1) * donor_size[:, None] // (2 * size[:, None])
    return donor[0][:, None] + scaled


def fill_in(x: Tensor, mask: Tensor) -> Tensor:
    """Carry the surroundings of the masked part over it, coarser with distance.

    Images are halved until every pixel has an unmasked neighbour; each size fills the next larger
    one. A fully masked image becomes its mean. Other features take the mean of the unmasked ones.

    Args:
        x: The samples, ``(N, *S)``.
        mask: ``(N, *M)`` in [0, 1], which broadcasts to ``x``.

    Example:
        >>> x, mask = torch.tensor([[[[1.0, 9.0, 1.0]]]]), torch.tensor([[[[0.0, 1.0, 0.0]]]])
        >>> fill_in(x, mask)
        tensor([[[[1., 1., 1.]]]])
    """
    if x.ndim != 4:
        kept = 1 - mask.expand_as(x)
        mean = (kept * x).flatten(1).sum(dim=1) / kept.flatten(1).sum(dim=1).clamp(min=1e-6)
        return torch.lerp(x, mean.reshape(-1, *[1] * (x.ndim - 1)).expand_as(x), 1 - kept)
    kept = (1 - mask).expand_as(x)
    empty = kept.flatten(1).amax(dim=1).reshape(-1, 1, 1, 1) == 0
    kept = torch.where(empty, torch.ones_like(kept), kept)
    filled = _pull(x * kept, kept)
    filled = torch.where(empty, x.mean(dim=(2, 3), keepdim=True).expand_as(x), filled)
    return torch.lerp(x, filled, mask.expand_as(x))


def _pull(total: Tensor, kept: Tensor) -> Tensor:
    """Fill the holes of ``total / kept`` with those of half the size, where ``kept`` is small."""
    own = total / kept.clamp(min=1e-6)
    if max(total.shape[2:]) == 1 or float(kept.amin()) >= 1:
        return own
    half = (min(2, total.shape[2]), min(2, total.shape[3]))
    pooled = [
        functional.avg_pool2d(part, half, ceil_mode=True, count_include_pad=False)
        for part in (total, kept)
    ]
    weight = (pooled[1] * half[0] * half[1]).clamp(max=1)
    coarse = _pull(pooled[0] / pooled[1].clamp(min=1e-6) * weight, weight)
    grown = functional.interpolate(coarse, total.shape[2:], mode="bilinear", align_corners=False)
    return torch.lerp(grown, own, kept)
