import math

import pytest
import torch
from tests.reference import leakage as slow
from torch import nn

import rightreasons as rr
from rightreasons.metrics import DensityRobustness


def test_equals_its_slow_twin(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    metric = DensityRobustness(deviations=(0.05, 0.2), num_draws=2, seed=3)
    found = rr.evaluate(model, tiny_batch, [metric], max_rows=5)
    sums, distances = zip(
        *(
            slow.density_robustness(model, tiny_batch, deviation=one, num_draws=2, seed=3)
            for one in (0.05, 0.2)
        ),
        strict=True,
    )
    name = "density_robustness"
    for place, deviation in enumerate(("0.05", "0.2")):
        assert found[f"{name}/{deviation}"] == pytest.approx(sums[place], rel=1e-5)
        assert found[f"{name}/log/{deviation}"] == pytest.approx(distances[place], rel=1e-5)
    assert found[name] == pytest.approx(sum(sums) / 2, rel=1e-5)
    assert found[f"{name}/log"] == pytest.approx(sum(distances) / 2, rel=1e-5)
    assert len(found) == 6


def test_a_model_that_noise_does_not_move_has_the_number_of_classes():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    model = nn.Linear(3, 7)
    model.weight.data.zero_()
    found = rr.evaluate(model, batch, ["density_robustness"])
    assert found["density_robustness"] == pytest.approx(7)
    assert found["density_robustness/log"] == pytest.approx(0, abs=1e-12)


def test_large_logits_do_not_overflow():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    model = nn.Linear(3, 2)
    model.bias.data = torch.tensor([1e4, -1e4])
    assert all(map(math.isfinite, rr.evaluate(model, batch, ["density_robustness"]).values()))
