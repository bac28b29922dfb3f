import torch

from rightreasons.datasets import InMemory
from rightreasons.metrics import METRICS, Metric, suitable
from rightreasons.types import Batch

X, Y = torch.rand(4, 3), torch.tensor([0, 1, 0, 1])


def names(**parts):
    return [metric.name for metric in suitable(InMemory(Batch(x=X, y=Y, **parts)))]


def test_every_metric_is_there_under_its_name():
    assert list(METRICS) == [
        "accuracy",
        "adv_insertion",
        "adversarial_accuracy",
        "calibration_error",
        "cam_mass",
        "certified_change",
        "deletion",
        "density_robustness",
        "feature_leakage",
        "gradient_fragility",
        "gradient_robustness",
        "group_accuracy",
        "input_gradient_mass",
        "insertion",
        "pixel_perturbation",
        "relative_core_sensitivity",
        "risk_coverage",
        "robust_criterion",
        "rps",
        "swap_accuracy",
    ]
    for name in METRICS:
        made = METRICS.create(name)
        assert isinstance(made, Metric)
        assert made.name == name


def test_data_get_the_metrics_they_have_what_it_needs_for():
    assert names() == ["accuracy", "calibration_error"]
    assert names(group=Y) == ["accuracy", "calibration_error", "group_accuracy"]
    masked = ["accuracy", "calibration_error", "input_gradient_mass", "swap_accuracy"]
    assert names(mask=X) == masked
    by_name_only = {"certified_change", "gradient_fragility", "relative_core_sensitivity"}
    by_name_only |= {"adversarial_accuracy"}
    by_name_only |= {"adv_insertion", "deletion", "insertion", "robust_criterion", "rps"}
    by_name_only |= {"density_robustness", "feature_leakage", "gradient_robustness"}
    by_name_only |= {"cam_mass", "pixel_perturbation", "risk_coverage"}
    assert set(names(mask=X, group=Y)) == set(METRICS) - by_name_only


def test_groups_nobody_knows_are_none():
    assert names(group=torch.full((4,), -1)) == ["accuracy", "calibration_error"]
    assert "group_accuracy" in names(group=torch.tensor([-1, -1, 0, -1]))
