import inspect

import torch

from rightreasons import metrics
from rightreasons.datasets import InMemory
from rightreasons.metrics import METRICS, Metric, suitable
from rightreasons.types import Batch

X, Y = torch.rand(4, 3), torch.tensor([0, 1, 0, 1])


def names(**parts):
    return [metric.name for metric in suitable(InMemory(Batch(x=X, y=Y, **parts)))]


def test_every_metric_is_there_under_its_name():
    exported = {value for value in vars(metrics).values() if inspect.isclass(value)}
    concrete = {one for one in exported if issubclass(one, Metric) and not inspect.isabstract(one)}
    assert {METRICS[name] for name in METRICS} == concrete
    for name in METRICS:
        metric = METRICS.create(name)
        assert isinstance(metric, Metric)
        assert metric.name == name


def test_data_get_the_metrics_they_have_what_it_needs_for():
    assert names() == ["accuracy", "calibration_error"]
    assert names(group=Y) == ["accuracy", "calibration_error", "group_accuracy"]
    masked = ["accuracy", "calibration_error", "input_gradient_mass", "swap_accuracy"]
    assert names(mask=X) == masked
    assert set(names(mask=X, group=Y)) == {*masked, "group_accuracy"}


def test_groups_nobody_knows_are_none():
    assert names(group=torch.full((4,), -1)) == ["accuracy", "calibration_error"]
    assert "group_accuracy" in names(group=torch.tensor([-1, -1, 0, -1]))
