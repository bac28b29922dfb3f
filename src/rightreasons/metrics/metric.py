"""A metric measures rows, one for each sample, and sums them up once all are there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from rightreasons.core.checks import check_integer
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.probe.probe import Need, Probe

__all__ = ["Metric", "Rows", "bootstrap_means", "bootstrap_shares", "percentile_interval"]


def bootstrap_shares(
    hits: NDArray[np.int64], totals: NDArray[np.int64], *, draws: int = 1000, seed: int = 0
) -> NDArray[np.float64]:
    r"""Draw shares again from what was seen: ``(draws, G)``.

    Resampling n zeros and ones with replacement and averaging them is one binomial draw,
    :math:`\mathrm{Bin}(n, k/n) / n`, so the bootstrap needs no resampled rows.
    """
    generator = np.random.default_rng(seed)
    shares = hits / totals
    return np.asarray(generator.binomial(totals, shares, size=(draws, len(totals))) / totals)


def bootstrap_means(
    values: NDArray[np.float64], *, draws: int = 1000, seed: int = 0
) -> NDArray[np.float64]:
    """Draw means again from what was seen, with replacement: ``(draws,)``."""
    generator = np.random.default_rng(seed)
    return np.array(
        [values[generator.integers(len(values), size=len(values))].mean() for _ in range(draws)]
    )


def percentile_interval(
    values: NDArray[np.float64], *, confidence: float = 0.95
) -> tuple[float, float]:
    """The middle ``confidence`` of drawn values."""
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


Rows = dict[str, Tensor]
"""Columns by name, each ``(N, ...)``: one row for each sample."""


class Metric(ABC):
    """Two pure functions: what to measure of each sample, and how to sum it up.

    Rows are kept until `compute`, so that a value cannot depend on how samples were batched. In
    several processes the rows of all are gathered, and a sample seen twice counts once.
    """

    name: ClassVar[str]
    higher_is_better: ClassVar[bool]
    needs_gradient: ClassVar[Need] = False
    layers: tuple[str, ...] = ()
    max_samples: int | None = None
    """How many samples to measure; None is all. See `limited`."""

    def __init__(self) -> None:
        self._rows: list[Rows] = []

    @abstractmethod
    def measure(self, probe: Probe) -> Rows:
        """What to remember of each sample of the batch."""

    @abstractmethod
    def summary(self, rows: Rows) -> float | dict[str, float]:
        """The value, or several by name, of all rows; the key ``""`` is the metric itself."""

    def prepare(self, data: Dataset) -> None:
        """Look at the data before the first batch: names, counts, other samples."""
        del data

    def calibrate(self, values: Mapping[str, float]) -> None:
        """Take from validation data what must not be chosen on the data that are judged.

        Args:
            values: What the metric came to on validation data, by its own names.
        """
        del values

    def limited(self, max_samples: int | None) -> Self:
        """The same metric; `evaluate` gives it so many samples, the same ones for every model.

        For what takes long: a few hundred samples give two digits of most values.
        """
        if max_samples is not None:
            check_integer("max_samples", max_samples)
        self.max_samples = max_samples
        return self

    def update(self, probe: Probe) -> None:
        """Measure one more batch."""
        rows = self.measure(probe)
        index = probe.batch.index
        if index is None:
            index = self._own_numbers(len(probe.batch))
        self._rows.append({name: value.detach().cpu() for name, value in rows.items()})
        self._rows[-1]["index"] = index.cpu()

    def compute(self) -> float | dict[str, float]:
        """The value over everything measured since the last `reset`, in all processes."""
        rows = self._rows
        if distributed.is_available() and distributed.is_initialized():
            everyone: list[list[Rows]] = [[] for _ in range(distributed.get_world_size())]
            distributed.all_gather_object(everyone, rows)
            rows = [batch for process in everyone for batch in process]
        rows = [batch for batch in rows if len(batch["index"])]
        if not rows:
            raise InvalidBatchError(
                f"Expected a sample before {type(self).__name__}.compute(), but got none."
            )
        columns = {name: torch.cat([batch[name] for batch in rows]) for name in rows[0]}
        first = _first_occurrences(columns["index"])
        return self.summary({name: column[first] for name, column in columns.items()})

    def reset(self) -> None:
        """Forget every batch."""
        self._rows = []

    def _own_numbers(self, size: int) -> Tensor:
        """Numbers below 0, which no place in a data set and no other process has."""
        several = distributed.is_available() and distributed.is_initialized()
        rank, world_size = (
            (distributed.get_rank(), distributed.get_world_size()) if several else (0, 1)
        )
        first = sum(len(seen["index"]) for seen in self._rows)
        return -1 - rank - world_size * torch.arange(first, first + size)


def _first_occurrences(index: Tensor) -> Tensor:
    """Where each distinct value occurs first, by value."""
    order = index.argsort(stable=True)
    values = index[order]
    new = torch.ones_like(values, dtype=torch.bool)
    new[1:] = values[1:] != values[:-1]
    return order[new]
