"""Strata of a table: rows with the same values in some columns."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch
from torch import Tensor

from rightreasons.datasets.dataset import Card
from rightreasons.errors import InvalidSettingError

__all__ = ["Strata"]

logger = logging.getLogger("rightreasons")


class Strata:
    """Finds other rows with the same values in some columns.

    Args:
        names: The columns; none of them is masked.
    """

    def __init__(self, names: Sequence[str] | str = ()) -> None:
        self.names = (names,) if isinstance(names, str) else tuple(names)
        self._features: Tensor | None = None

    def prepare(self, card: Card, donors: Tensor) -> None:
        """Find the columns, and log how many of the donors' rows are alone in their stratum."""
        if not self.names:
            return
        columns = {column.name: column for column in card.columns}
        unknown = [name for name in self.names if name not in columns or columns[name].masked]
        if unknown:
            free = [name for name, column in columns.items() if not column.masked]
            raise InvalidSettingError(
                f"Expected `strata` to be columns of a table that are not masked, but got "
                f"{unknown[0]!r}. There are: {', '.join(free) or 'none, since this is no table'}."
            )
        spans = [columns[name].features for name in self.names]
        self._features = torch.cat([torch.arange(span.start, span.stop) for span in spans])
        alone = self._same(donors, donors).sum(dim=1) == 1  # itself
        if alone.any():
            logger.warning(
                "%.0f %% of the rows are alone in their stratum of %s: their masked values come "
                "from any other row.",
                100 * float(alone.double().mean()),
                ", ".join(self.names),
            )

    def choose(self, x: Tensor, donors: Tensor, is_itself: Tensor, draws: Tensor) -> Tensor:
        """The number of a donor in the stratum of each row; -1 where there is none.

        Args:
            x: The rows, ``(N, F)``.
            donors: The rows that may be chosen, ``(D, F)``.
            is_itself: Which donor is the row itself, ``(N, D)``.
            draws: A number in [0, 1) for each row, which decides.
        """
        same = self._same(x, donors) & ~is_itself
        number = (draws * same.sum(dim=1)).long()[:, None]
        chosen = (same.cumsum(dim=1) > number).long().argmax(dim=1)
        return torch.where(same.any(dim=1), chosen, -1)

    def _same(self, x: Tensor, donors: Tensor) -> Tensor:
        if self._features is None:
            raise InvalidSettingError(
                "Expected to know the columns of `strata` before other rows are drawn, but nobody "
                "said. Call objective.prepare(data, num_passes=...) before the first step; fit() "
                "does."
            )
        equal: Tensor = x[:, None, self._features] == donors[None, :, self._features]
        return equal.all(dim=2)
