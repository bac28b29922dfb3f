"""Metrics by name, and those that suit given data."""

from rightreasons.datasets.dataset import Dataset
from rightreasons.metrics.accuracy import Accuracy
from rightreasons.metrics.calibration_error import CalibrationError
from rightreasons.metrics.group_accuracy import GroupAccuracy
from rightreasons.metrics.input_gradient_mass import InputGradientMass
from rightreasons.metrics.metric import Metric
from rightreasons.metrics.swap_accuracy import SwapAccuracy
from rightreasons.registry import Registry

__all__ = ["METRICS", "suitable"]

METRICS: Registry[Metric] = Registry(
    "metric",
    {
        metric.name: metric
        for metric in (
            Accuracy,
            CalibrationError,
            GroupAccuracy,
            InputGradientMass,
            SwapAccuracy,
        )
    },
)


def suitable(data: Dataset) -> list[Metric]:
    """Every metric for which the data have what it needs: masks, known groups."""
    metrics: list[Metric] = [Accuracy(), CalibrationError()]
    if data.groups is not None and bool((data.groups >= 0).any()):
        metrics.append(GroupAccuracy())
    if data.has_masks:
        metrics += [InputGradientMass(), SwapAccuracy()]
    return metrics
