"""The settings every data set with masks takes: how many of them, and how wrong."""

import inspect

from rightreasons.datasets.corrupt_masks import CORRUPTIONS, corrupt_masks
from rightreasons.datasets.dataset import Splits
from rightreasons.datasets.mask_count import mask_count
from rightreasons.datasets.mask_fraction import mask_fraction as reduced
from rightreasons.errors import InvalidSettingError

__all__ = ["MASK_SETTINGS", "with_mask_settings"]


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
        splits = reduced(splits, fraction=mask_fraction, keep=mask_fraction_keep, seed=seed)
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
