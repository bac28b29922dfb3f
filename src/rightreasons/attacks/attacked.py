"""What an attack on predictions found, and how it is remembered on the way."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rightreasons.target import Target

__all__ = ["Attacked", "Record"]


@dataclass(frozen=True)
class Attacked:
    """The worst inputs an attack on predictions found.

    Args:
        x: ``(N, *S)``: where the label's margin was smallest among the points that were tried,
            the sample itself included.
        fooled: ``(N,)``: whether the prediction there is not the label.
        margin: ``(N,)``: the label's logit there, less the largest other one.
    """

    x: Tensor
    fooled: Tensor
    margin: Tensor

    def stronger(self, rows: Tensor, other: Attacked) -> Attacked:
        """The same, with what ``other`` found for the samples at ``rows`` where it is worse."""
        better = rows[(other.margin < self.margin[rows]) | (other.fooled & ~self.fooled[rows])]
        place = torch.full_like(self.fooled, -1, dtype=torch.long)
        place[rows] = torch.arange(len(rows), device=rows.device)
        x, fooled, margin = self.x.clone(), self.fooled.clone(), self.margin.clone()
        x[better] = other.x[place[better]]
        fooled[better] = other.fooled[place[better]]
        margin[better] = other.margin[place[better]]
        return Attacked(x, fooled, margin)


class Record:
    """The worst point seen so far of each sample.

    Args:
        x: The samples, ``(N, *S)``.
    """

    def __init__(self, x: Tensor) -> None:
        self.x = x.detach().clone()
        self.fooled = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        self.margin = torch.full((len(x),), torch.inf, dtype=x.dtype, device=x.device)

    def see(self, rows: Tensor, points: Tensor, logits: Tensor, y: Tensor) -> Tensor:
        """Look at new points of the samples at ``rows``; which of them fool, ``(len(rows),)``.

        What is no number fools, and its margin is none.
        """
        margins = Target.MARGIN(logits.detach(), y).to(self.margin)
        fooled = (logits.argmax(dim=1) != y) | margins.isnan()
        better = (margins < self.margin[rows]) | fooled
        self.x[rows[better]] = points.detach()[better]
        self.margin[rows[better]] = margins[better]
        self.fooled[rows[better]] = fooled[better]
        return fooled

    def result(self) -> Attacked:
        """What was found."""
        return Attacked(self.x, self.fooled, self.margin)
