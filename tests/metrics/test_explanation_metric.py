import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import InvalidBatchError, UnknownNameError
from rightreasons.metrics import METRICS, suitable
from rightreasons.metrics.explanation_metric import ExplanationMetric

NAMES = [name for name in METRICS if issubclass(METRICS[name], ExplanationMetric)]


def test_all_of_them_are_here():
    assert NAMES == ["adv_insertion", "deletion", "insertion", "pixel_perturbation", "rps"]


@pytest.mark.parametrize("name", NAMES)
def test_are_measured_only_when_asked_for(name):
    data = InMemory(rr.Batch(x=torch.rand(2, 1, 4, 4), y=torch.tensor([0, 1])))
    assert name not in [metric.name for metric in suitable(data)]


@pytest.mark.parametrize("name", [*NAMES, "robust_criterion"])
def test_tokens_are_refused(name):
    tokens = InMemory(rr.Batch(x=torch.tensor([[1, 2], [2, 0]]), y=torch.tensor([0, 1])))
    model = nn.Sequential(nn.Embedding(3, 2), nn.Flatten(), nn.Linear(4, 2))
    with pytest.raises(InvalidBatchError, match="Expected floating point `x` for .*token ids"):
        rr.evaluate(model, tokens, [name])


@pytest.mark.parametrize("name", [*NAMES, "robust_criterion"])
def test_a_metric_that_was_not_prepared(name):
    metric = METRICS.create(name)
    batch = rr.Batch(x=torch.rand(2, 3), y=torch.tensor([0, 1]), index=torch.arange(2))
    with pytest.raises(InvalidBatchError, match=f"Expected {type(metric).__name__}.prepare"):
        metric.update(rr.Probe(nn.Linear(3, 2), batch))


@pytest.mark.parametrize("name", NAMES)
def test_mistakes_in_names_show_at_once(name):
    with pytest.raises(UnknownNameError, match="Expected an explainer, but got 'lpr'"):
        METRICS.create(name, explainers="lpr")


def test_lrp_by_name_takes_the_range_of_the_data():
    x = torch.rand(3, 1, 4, 4) - 2
    data = InMemory(rr.Batch(x=x, y=torch.tensor([0, 1, 1])), Card(valid_range=(-2.0, -1.0)))
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, 2))
    found = rr.evaluate(model, data, [METRICS.create("rps", explainers="lrp", num_draws=2)])
    assert 0 < found["rps/lrp"] == found["rps"] <= 1
