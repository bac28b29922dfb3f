"""What a suite measures, and the paper's own figures beside it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rightreasons.errors import InvalidSettingError
from rightreasons.metrics import METRICS
from rightreasons.run.config import read_yaml

__all__ = ["Figure", "Figures", "Measure", "Summary", "higher_is_better", "read_figures"]


@dataclass(frozen=True)
class Figure:
    """One number of a paper, with its deviation if the paper gives one."""

    mean: float
    deviation: float | None = None


@dataclass(frozen=True)
class Figures:
    """The numbers of a table, by variant, method and measure.

    Args:
        source: The exact place in the paper.
        values: ``values[variant][method][measure]``; numbers that the paper does not give are
            left out.
    """

    source: str = ""
    values: Mapping[str, Mapping[str, Mapping[str, Figure]]] = field(default_factory=dict)

    def find(self, variant: str, method: str, measure: str) -> Figure | None:
        """The paper's number, if it has one."""
        return self.values.get(variant, {}).get(method, {}).get(measure)


def read_figures(path: str | Path) -> Figures:
    """Read figures from YAML: ``source``, and ``figures`` by variant, method and measure.

    Each is ``{mean: 0.92, deviation: 0.01}``; the deviation may be left out.
    """
    try:
        content = read_yaml(Path(path))
        values = {
            variant: {
                method: {measure: _figure(figure) for measure, figure in row.items()}
                for method, row in block.items()
            }
            for variant, block in content["figures"].items()
        }
        return Figures(source=str(content["source"]), values=values)
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise InvalidSettingError(
            f"Expected `source` and `figures` by variant, method and measure in {path}, but cannot "
            f"read them: {error}."
        ) from error


def _figure(entry: Mapping[str, Any]) -> Figure:
    if not all(type(value) in (int, float, type(None)) for value in entry.values()):
        raise TypeError(f"{dict(entry)} has other values than numbers")
    return Figure(**entry)


@dataclass(frozen=True)
class Summary:
    """A measure over several runs.

    Args:
        mean: Mean over the runs.
        deviation: Sample standard deviation, with n - 1; None for a single run.
        num_runs: Number of runs.
    """

    mean: float
    deviation: float | None
    num_runs: int


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number found in a run's results.

    Args:
        key: Name in the results of `evaluate`: ``"group_accuracy/worst"``.
        name: Name in the table and in the file of the paper's figures.
        part: Part of the data: ``"test"``, ``"validation"`` or another that runs measure.
        groups_first: Average every group over the runs, then take the worst group, as some papers
            do. Otherwise each run's own number is averaged. The deviation is that group's.
        percent: Show a fraction as per cent.

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
        """Mean and deviation over the runs that have a finite number; None if none has.

        Args:
            results: Results of `train_run`, one for each run.
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
        """The groups that every run has; results of a group come with its number of samples."""
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
