"""The base of all metrics: rows for each sample, and a summary of all rows; bootstrap intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from rightreasons.core.checks import check_integer
from rightreasons.core.memory import Work
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.probe.probe import Need, Probe

__all__ = [
    "Metric",
    "Rows",
    "bootstrap_fractions",
    "bootstrap_means",
    "check_prepared",
    "percentile_interval",
    "refuse_without_masks",
]

Prepared = TypeVar("Prepared")
Rows = dict[str, Tensor]
"""Columns by name, each ``(N, ...)``: one row for each sample."""


class Metric(ABC):
    """Two pure functions: what to measure of each sample, and how to summarise the samples.

    Rows are kept until `compute`, so that a value cannot depend on how samples were batched. With
    several processes the rows of all are gathered, and a sample measured twice counts once.
    """

    name: ClassVar[str]
    higher_is_better: ClassVar[bool]
    needs_gradient: ClassVar[Need] = False
    takes_texts: ClassVar[bool] = False
    """Whether the metric can be measured on token ids."""
    layers: tuple[str, ...] = ()
    work: ClassVar[Work | None] = None
    """What a pass of the metric over whole batches keeps, which bounds their size; None is values,
    or gradients if they are needed."""
    max_samples: int | None = None
    """How many samples to measure; None is all. `limit` sets it."""

    def __init__(self) -> None:
        self._rows: list[Rows] = []

    @abstractmethod
    def measure(self, probe: Probe) -> Rows:
        """Measure each sample of the batch."""

    @abstractmethod
    def summary(self, rows: Rows) -> float | dict[str, float]:
        """The value, or several by name, of all rows; the key ``""`` is the metric itself."""

    def prepare(self, data: Dataset) -> None:
        """Read what the metric needs of the data before the first batch: names, counts, samples."""
        del data

    def calibrate(self, values: Mapping[str, float]) -> None:
        """Take from validation data what must not be chosen on the test data.

        Args:
            values: The metric's values on validation data, by its own names.
        """
        del values

    def limit(self, max_samples: int | None) -> Self:
        """Let `evaluate` measure so many samples only, the same ones for every model.

        Use it for metrics that take long: a few hundred samples give two digits of most values.

        Args:
            max_samples: How many samples to measure; None is all.

        Returns:
            The metric itself.
        """
        if max_samples is not None:
            check_integer("max_samples", max_samples)
        self.max_samples = max_samples
        return self

    limited = limit
    """The former name of `limit`."""

    def update(self, probe: Probe) -> None:
        """Measure one more batch."""
        rows = self.measure(probe)
        index = probe.batch.index
        if index is None:
            index = self._invent_index(len(probe.batch))
        self._rows.append({name: value.detach().cpu() for name, value in rows.items()})
        self._rows[-1]["index"] = index.cpu()

    def compute(self) -> float | dict[str, float]:
        """The value over everything measured since the last `reset`, in all processes."""
        rows = self._rows
        if distributed.is_available() and distributed.is_initialized():
            gathered: list[list[Rows]] = [[] for _ in range(distributed.get_world_size())]
            distributed.all_gather_object(gathered, rows)
            rows = [batch for process in gathered for batch in process]
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

    def _invent_index(self, size: int) -> Tensor:
        """Negative numbers, which no sample of a data set and no other process has."""
        several = distributed.is_available() and distributed.is_initialized()
        rank, world_size = (
            (distributed.get_rank(), distributed.get_world_size()) if several else (0, 1)
        )
        first = sum(len(batch["index"]) for batch in self._rows)
        return -1 - rank - world_size * torch.arange(first, first + size)


def refuse_without_masks(metric: Metric, data: Dataset, remedy: str = "") -> None:
    """Raise if the data have no masks, which ``metric`` needs."""
    if not data.has_masks:
        raise InvalidBatchError(
            f"Expected data with masks for {type(metric).__name__}, but got none.{remedy}"
        )


def check_prepared(
    metric: Metric, prepared: Prepared | None, index: Tensor | None
) -> tuple[Prepared, Tensor]:
    """Give both back, or raise if `Metric.prepare` was not called or samples have no number.

    Args:
        metric: Named in the error message.
        prepared: What `Metric.prepare` sets; None before it was called.
        index: The samples' numbers, on which what is drawn for them depends.
    """
    if prepared is None or index is None:
        raise InvalidBatchError(
            f"Expected {type(metric).__name__}.prepare(data) before the first batch, and batches "
            "with an `index`. evaluate() does both."
        )
    return prepared, index


def bootstrap_fractions(
    hits: NDArray[np.int64], totals: NDArray[np.int64], *, draws: int = 1000, seed: int = 0
) -> NDArray[np.float64]:
    r"""Bootstrap samples of fractions ``hits / totals``: ``(draws, G)``.

    Resampling n zeros and ones with replacement and averaging them is one binomial draw,
    :math:`\mathrm{Bin}(n, k/n) / n`, so the bootstrap needs no resampled rows. It has no spread
    where all samples are right, or none is, however few they are. There the draws come from
    :math:`\mathrm{Beta}(n, 1)` and :math:`\mathrm{Beta}(1, n)`, whose quantiles are the ends of
    Clopper and Pearson's interval.
    """
    generator = np.random.default_rng(seed)
    size = (draws, len(totals))
    drawn = np.asarray(generator.binomial(totals, hits / totals, size=size) / totals)
    is_flat = (hits == 0) | (hits == totals)
    if is_flat.any():
        flat = generator.beta(np.maximum(hits, 1), np.maximum(totals - hits, 1), size=size)
        drawn = np.where(is_flat, flat, drawn)
    return drawn


def bootstrap_means(
    values: NDArray[np.float64], *, draws: int = 1000, seed: int = 0
) -> NDArray[np.float64]:
    """Bootstrap samples of the mean of ``values``: ``(draws,)``."""
    generator = np.random.default_rng(seed)
    return np.array(
        [values[generator.integers(len(values), size=len(values))].mean() for _ in range(draws)]
    )


def percentile_interval(
    values: NDArray[np.float64], *, confidence: float = 0.95
) -> tuple[float, float]:
    """The middle ``confidence`` of bootstrap samples."""
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _first_occurrences(index: Tensor) -> Tensor:
    """Where each distinct value occurs first, by value."""
    order = index.argsort(stable=True)
    values = index[order]
    is_new = torch.ones_like(values, dtype=torch.bool)
    is_new[1:] = values[1:] != values[:-1]
    return order[is_new]
