import pytest
import torch
from tests.reference import leakage as slow
from torch import nn

import rightreasons as rr
from rightreasons.metrics import GradientRobustness


def test_equals_its_slow_twin(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    metric = GradientRobustness(deviations=(0.2, 0.05), num_draws=2, seed=3)
    found = rr.evaluate(model, tiny_batch, [metric], max_rows=5)
    expected = [
        slow.gradient_robustness(model, tiny_batch, deviation=one, num_draws=2, seed=3)
        for one in (0.05, 0.2)
    ]
    assert found["gradient_robustness/0.05"] == pytest.approx(expected[0], rel=1e-5)
    assert found["gradient_robustness/0.2"] == pytest.approx(expected[1], rel=1e-5)
    assert found["gradient_robustness"] == pytest.approx(sum(expected) / 2, rel=1e-5)
    assert found["gradient_robustness/n"] == 6
    assert expected[0] < expected[1]


def test_linear_models_do_not_move_and_flat_ones_do_not_count():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    model = nn.Linear(3, 2)
    assert rr.evaluate(model, batch, ["gradient_robustness"])["gradient_robustness"] == 0
    model.weight.data[1] = 0
    assert rr.evaluate(model, batch, ["gradient_robustness"])["gradient_robustness/n"] == 2
    model.weight.data[0] = 0
    assert rr.evaluate(model, batch, ["gradient_robustness"]) == {"gradient_robustness/n": 0.0}


def test_the_target_may_be_the_density():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    model = nn.Linear(3, 2)
    metric = GradientRobustness(target="logsumexp")
    assert rr.evaluate(model, batch, [metric])["gradient_robustness"] > 0
