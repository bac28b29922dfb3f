"""What a column of a table shows: one number of each run, summed up over the seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rightreasons.metrics import METRICS

__all__ = ["Measure", "Summary", "higher_is_better"]


@dataclass(frozen=True)
class Summary:
    """A measure over several runs.

    Args:
        mean: Over the runs.
        deviation: Sample standard deviation, with n - 1; None for a single run.
        num_runs: How many there were.
    """

    mean: float
    deviation: float | None
    num_runs: int


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number found in a run's results.

    Args:
        key: As `evaluate` names it: ``"group_accuracy/worst"``.
        name: As the table names it; the paper's figures go by it.
        part: Of the data: ``"test"``, ``"validation"`` or what else a run measured.
        groups_first: Average every group over the runs, then take the worst group, as some papers
            do. Otherwise each run's own number is averaged. The deviation is that group's.
        percent: Show a share as per cent.

    Example:
        >>> runs = [{"metrics": {"test": {"accuracy": share}}} for share in (0.5, 0.75)]
        >>> Measure(key="accuracy", name="accuracy").summary(runs).mean
        0.625
    """

    key: str
    name: str
    part: str = "test"
    groups_first: bool = False
    percent: bool = False

    @property
    def metric(self) -> str:
        """The name of the metric that gives this number."""
        return self.key.split("/")[0]

    def summary(self, results: Sequence[Mapping[str, Any]]) -> Summary | None:
        """Over those runs that measured it, as a finite number; None if none did.

        Args:
            results: As `train_run` gives them.
        """
        parts = [run["metrics"].get(self.part, {}) for run in results]
        measured = [part for part in parts if part.get(self.key) is not None]
        if not measured:
            return None
        if not self.groups_first:
            return _summary([part[self.key] for part in measured])
        each = [_summary([part[name] for part in measured]) for name in self._groups(measured)]
        worst = min if higher_is_better(self.metric) else max
        return worst(each, key=lambda group: group.mean)

    def _groups(self, measured: list[dict[str, Any]]) -> list[str]:
        """The groups that every run has; a group is what comes with its number of samples."""
        return [
            name
            for name in measured[0]
            if name.startswith(f"{self.metric}/")
            and all(name in part and f"{name}/n" in part for part in measured)
        ]


def higher_is_better(metric: str) -> bool:
    """Whether more of this metric is better."""
    return METRICS.create(metric).higher_is_better


def _summary(values: list[float]) -> Summary:
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Summary(statistics.fmean(values), deviation, len(values))
