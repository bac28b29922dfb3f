"""The region of a finding: where it lies in any sample, as a soft mask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from rightreasons.audit.patterns import Pattern, match_patterns

__all__ = ["WORKING_SIDE", "Region", "border_ring", "fit_mask", "shrink_images"]

WORKING_SIDE = 96
BORDER_SHARE = 16


@dataclass(frozen=True)
class Region:
    """Where a finding lies: patterns, the border of an image, or a column of a table.

    Args:
        kind: ``"patterns"``, ``"border"`` or ``"column"``.
        patterns: Patterns to search for.
        column: Number of the column.
    """

    kind: str
    patterns: tuple[Pattern, ...] = ()
    column: int = 0

    def locate(self, x: Tensor) -> Tensor:
        """Soft masks of samples: ``(N, 1, H, W)`` for images, ``(N, D)`` for tables.

        A mask is 1 where the finding is, and all 0 where it is not present.
        """
        if self.kind == "column":
            mask = torch.zeros_like(x)
            mask[:, self.column] = 1
            return mask
        if self.kind == "border":
            return border_ring(x).expand(len(x), -1, -1, -1)
        mask = match_patterns(list(self.patterns), shrink_images(x)).mask
        return fit_mask(mask, x)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `from_arrays` makes the same region."""
        arrays: dict[str, NDArray[Any]] = {
            "kind": np.array(self.kind),
            "column": np.array(self.column),
        }
        for number, one in enumerate(self.patterns):
            arrays[f"mean_{number}"] = one.mean.numpy()
            arrays[f"mask_{number}"] = one.mask.numpy()
            arrays[f"numbers_{number}"] = np.array(
                [one.label, one.threshold, one.rate, one.medoid], dtype=np.float64
            )
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Region:
        """Make a region from its arrays."""
        patterns: list[Pattern] = []
        while f"mean_{len(patterns)}" in arrays:
            number = len(patterns)
            label, threshold, rate, medoid = arrays[f"numbers_{number}"].tolist()
            mean, mask = (torch.from_numpy(arrays[f"{one}_{number}"]) for one in ("mean", "mask"))
            patterns.append(Pattern(int(label), mean, mask, threshold, rate, int(medoid)))
        return cls(str(arrays["kind"]), tuple(patterns), int(arrays["column"]))


def border_ring(x: Tensor) -> Tensor:
    """The outer frame of images, a sixteenth of the side wide: ``(1, 1, H, W)``."""
    height, width = x.shape[2:]
    wide = max(1, min(height, width) // BORDER_SHARE)
    ring = torch.ones(1, 1, height, width)
    ring[:, :, wide:-wide, wide:-wide] = 0
    return ring.to(x)


def shrink_images(x: Tensor, most: int = WORKING_SIDE) -> Tensor:
    """Shrink images ``(N, C, H, W)`` to at most so many pixels a side."""
    longest = max(x.shape[2:])
    if longest <= most:
        return x
    size = [max(1, round(side * most / longest)) for side in x.shape[2:]]
    return functional.interpolate(x, size=size, mode="area")


def fit_mask(mask: Tensor, x: Tensor) -> Tensor:
    """Stretch masks of shrunken images to the size of images."""
    if mask.shape[2:] == x.shape[2:]:
        return mask
    return functional.interpolate(mask, size=x.shape[2:], mode="bilinear").clamp(0, 1)
