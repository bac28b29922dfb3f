"""The region of a finding: where it lies in any sample, as a soft mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from rightreasons.audit.patches import SMALLEST_PATCH
from rightreasons.audit.patterns import Pattern, match_patterns

__all__ = [
    "WORKING_SIDE",
    "Region",
    "border_ring",
    "fit_mask",
    "locate_words",
    "shrink_images",
]

WORKING_SIDE = 96
BORDER_SHARE = 16


@dataclass(frozen=True)
class Region:
    """Where a finding lies: patterns, the border of an image, a column of a table, or words.

    Args:
        kind: ``"patterns"``, ``"border"``, ``"column"`` or ``"words"``.
        patterns: Patterns to search for.
        column: Number of the column's first feature.
        features: How many features the column has.
        words: Groups of words as token ids; a group is present if all its words are.
        starts: Whether a token begins a word, for each token id; None if all do.
    """

    kind: str
    patterns: tuple[Pattern, ...] = ()
    column: int = 0
    features: int = 1
    words: tuple[tuple[tuple[int, ...], ...], ...] = ()
    starts: Tensor | None = None

    def locate(self, x: Tensor) -> Tensor:
        """Soft masks of samples: ``(N, 1, H, W)``, ``(N, D)`` for tables, ``(N, T)`` for texts.

        A mask is 1 where the finding is, and all 0 where it is not present.
        """
        if self.kind == "column":
            mask = torch.zeros_like(x)
            mask[:, self.column : self.column + self.features] = 1
            return mask
        if self.kind == "words":
            return locate_words(x, self.words, self.starts)
        if self.kind == "border":
            return border_ring(x).expand(len(x), -1, -1, -1)
        mask = match_patterns(list(self.patterns), shrink_images(x)).mask
        return fit_mask(mask, x)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `from_arrays` makes the same region."""
        arrays: dict[str, NDArray[Any]] = {
            "kind": np.array(self.kind),
            "column": np.array(self.column),
            "features": np.array(self.features),
        }
        for number, group in enumerate(self.words):
            for place, word in enumerate(group):
                arrays[f"word_{number}_{place}"] = np.array(word, dtype=np.int64)
        if self.starts is not None:
            arrays["starts"] = self.starts.numpy()
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
        words: list[tuple[tuple[int, ...], ...]] = []
        while f"word_{len(words)}_0" in arrays:
            known = [name for name in arrays if name.startswith(f"word_{len(words)}_")]
            group = [arrays[f"word_{len(words)}_{place}"].tolist() for place in range(len(known))]
            words.append(tuple(tuple(word) for word in group))
        return cls(
            str(arrays["kind"]),
            tuple(patterns),
            int(arrays["column"]),
            int(arrays.get("features", np.array(1))),
            tuple(words),
            torch.from_numpy(arrays["starts"]) if "starts" in arrays else None,
        )


def locate_words(
    x: Tensor, groups: Sequence[Sequence[Sequence[int]]], starts: Tensor | None = None
) -> Tensor:
    """Mark words in texts: 1 on all their tokens, ``(N, T)``.

    Args:
        x: Token ids ``(N, T)``.
        groups: Groups of words as token ids; a group is marked where a text has all its words.
        starts: Whether a token begins a word, for each token id; None if all do.

    Example:
        >>> locate_words(torch.tensor([[7, 5, 6], [5, 7, 7]]), [[(5, 6)]])
        tensor([[0., 1., 1.],
                [0., 0., 0.]])
    """
    begins = torch.ones_like(x, dtype=torch.bool)
    if starts is not None:
        begins = (x < 0) | starts.to(x.device)[x.clamp(min=0)]
    ends = torch.cat([begins[:, 1:], torch.ones_like(begins[:, :1])], dim=1)
    marked = torch.zeros_like(begins)
    for group in groups:
        masks = [_mark_word(x, torch.tensor(word).to(x), ends) for word in group]
        present = torch.stack([mask.any(dim=1) for mask in masks]).all(dim=0)
        marked |= torch.stack(masks).any(dim=0) & present[:, None]
    return marked.float()


def _mark_word(x: Tensor, word: Tensor, ends: Tensor) -> Tensor:
    mask = torch.zeros_like(ends)
    num = x.shape[1] - len(word) + 1
    if num < 1:
        return mask
    hits = ends[:, len(word) - 1 :].clone()
    for place, token in enumerate(word):
        hits &= x[:, place : place + num] == token
    for place in range(len(word)):
        mask[:, place : place + num] |= hits
    return mask


def border_ring(x: Tensor) -> Tensor:
    """The outer frame of images, a sixteenth of the side wide: ``(1, 1, H, W)``."""
    height, width = x.shape[2:]
    wide = max(1, min(height, width) // BORDER_SHARE)
    ring = torch.ones(1, 1, height, width)
    ring[:, :, wide:-wide, wide:-wide] = 0
    return ring.to(x)


def shrink_images(x: Tensor, most: int = WORKING_SIDE) -> Tensor:
    """Shrink images ``(N, C, H, W)`` to at most so many pixels a side; a strip keeps two."""
    longest = max(x.shape[2:])
    if longest <= most:
        return x
    size = [max(min(side, SMALLEST_PATCH), round(side * most / longest)) for side in x.shape[2:]]
    return functional.interpolate(x, size=size, mode="area")


def fit_mask(mask: Tensor, x: Tensor) -> Tensor:
    """Stretch masks of shrunken images to the size of images."""
    if mask.shape[2:] == x.shape[2:]:
        return mask
    return functional.interpolate(mask, size=x.shape[2:], mode="bilinear").clamp(0, 1)
