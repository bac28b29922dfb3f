"""Lower bounds of many linear functions at once, summed up from layer to layer."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.bounds.rounding import precision, smallest, sum_error

__all__ = ["RowSum", "mapped"]


class RowSum:
    r"""A sum of minima :math:`\sum_i \min_{|v_i - c_i| \le r_i} a_i v_i`, one for each row.

    Rows are ``(N, R, *S)``, or ``(1, R, *S)`` while they are the same for all samples; what they
    are multiplied with is ``(N, *S)``.

    Args:
        outward: Whether the sum must be a lower bound despite rounding.
    """

    def __init__(self, *, outward: bool) -> None:
        self.outward = outward
        self.num_parts = 0
        self._value: Tensor | None = None
        self._size: Tensor | None = None

    def add(self, rows: Tensor, center: Tensor | None, radius: Tensor | None) -> None:
        """Add the smallest value of the rows over a box; a part that is None is zero."""
        parts = []
        if center is not None:
            parts.append(_times(rows, center))
        if self.outward and center is not None:
            error = sum_error(center[0].numel(), center)
            slack = error * center.abs() + smallest(center)
            radius = slack if radius is None else radius * (1 + error) + slack
        elif self.outward and radius is not None:
            radius = radius * (1 + sum_error(radius[0].numel(), radius)) + smallest(radius)
        if radius is not None:
            parts.append(-_times(rows.abs(), radius))
        for part in parts:
            self.num_parts += 1
            self._value = part if self._value is None else self._value + part
            if self.outward:
                self._size = part.abs() if self._size is None else self._size + part.abs()

    def total(self) -> Tensor:
        """The sums, ``(N, R)``."""
        if self._value is None:
            return torch.zeros(())
        if self._size is None:
            return self._value
        error = 2 * (self.num_parts + 4) * precision(self._value)
        return self._value - (error * self._size + smallest(self._value))


def mapped(rows: Tensor, shape: tuple[int, ...] | torch.Size) -> Tensor:
    """Rows ``(N * R, *S)`` as ``(N, R, *S)`` again."""
    return rows.reshape(*shape, *rows.shape[1:])


def _times(rows: Tensor, vectors: Tensor) -> Tensor:
    flat_rows, flat = rows.flatten(2), vectors.expand(vectors.shape).flatten(1)
    if flat_rows.shape[0] == 1:
        return flat @ flat_rows[0].T  # (N, S) (S, R) -> (N, R)
    return torch.bmm(flat_rows, flat.unsqueeze(2)).squeeze(2)
