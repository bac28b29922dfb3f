"""Metrics by name, and those that suit given data."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from rightreasons.core.checks import Registry
from rightreasons.datasets.dataset import Dataset
from rightreasons.metrics.accuracy import Accuracy, CalibrationError, GroupAccuracy
from rightreasons.metrics.mass import InputGradientMass
from rightreasons.metrics.metric import Metric
from rightreasons.metrics.swap_accuracy import SwapAccuracy

__all__ = ["METRICS", "create_metric", "suitable"]


def suitable(data: Dataset) -> list[Metric]:
    """Every cheap metric for which the data have what it needs: masks, known groups.

    Others are measured only when they are asked for by name: those that need bounds, which not
    every model has, noise, or many explanations.
    """
    metrics: list[Metric] = [Accuracy(), CalibrationError()]
    if data.groups is not None and bool((data.groups >= 0).any()):
        metrics.append(GroupAccuracy())
    if data.has_masks:
        metrics += [InputGradientMass(), SwapAccuracy()]
    return metrics


def _metrics_of_this_package() -> Iterator[type[Metric]]:
    """Every class in a file of this folder that is a metric and not abstract."""
    package = __name__.rpartition(".")[0]
    for file in iter_modules([str(Path(__file__).parent)]):
        name = f"{package}.{file.name}"
        if name == __name__:
            continue
        for value in vars(import_module(name)).values():
            is_metric = inspect.isclass(value) and issubclass(value, Metric)
            if is_metric and value.__module__ == name and not inspect.isabstract(value):
                yield value


METRICS: Registry[Metric] = Registry(
    "metric", {metric.name: metric for metric in _metrics_of_this_package()}
)


def create_metric(name: str, /, *, max_samples: int | None = None, **settings: Any) -> Metric:
    """Make a metric by name.

    Args:
        name: One of `METRICS`.
        max_samples: Number of samples to measure, see `Metric.limit`.
        **settings: Settings of the metric.

    Example:
        >>> create_metric("accuracy", max_samples=5).max_samples
        5
    """
    return METRICS.create(name, **settings).limit(max_samples)
