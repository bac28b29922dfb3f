import pytest
import torch
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.attacks import AttributionManipulation
from rightreasons.errors import InvalidSettingError
from rightreasons.explainers import InputGradient
from rightreasons.metrics import RobustCriterion
from rightreasons.metrics.robust_criterion import cosine_criterion

NAME = "robust_criterion"


def net():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(18, 6), nn.Softplus(beta=5), nn.Linear(6, 3)
    ).double()


@pytest.fixture
def batch():
    return rr.Batch(x=torch.rand(4, 2, 3, 3, dtype=torch.float64), y=torch.tensor([0, 1, 2, 0]))


def test_equals_its_slow_twin(batch):
    model = net()
    metric = RobustCriterion(epsilon=0.3, num_draws=2, num_projections=3, num_steps=6, seed=5)
    result = rr.evaluate(model, batch, [metric], max_rows=3)
    expected = slow.robust_criterion(
        model,
        batch,
        epsilon=0.3,
        num_draws=2,
        num_projections=3,
        seed=5,
        valid_range=(0.0, 1.0),
    )
    for key, value in expected.items():
        assert result[f"{NAME}/{key}".rstrip("/")] == pytest.approx(value, rel=1e-5)
    attack = AttributionManipulation(
        explainer=InputGradient(),
        epsilon=0.3,
        num_steps=6,
        distance=cosine_criterion,
        valid_range=(0.0, 1.0),
        seed=5,
    )
    attacked = attack(model, batch.x, batch.y).after.mean().item()
    assert result[f"{NAME}/aam"] == pytest.approx(attacked, rel=1e-5)
    assert result[f"{NAME}/gap"] == pytest.approx(attacked - expected[""], rel=1e-4)


def test_an_attack_turns_the_gradient_further_than_noise_does(batch):
    result = rr.evaluate(net(), batch, [RobustCriterion(epsilon=0.3)])
    assert result[f"{NAME}/gap"] > 0


class Quadratic(nn.Module):
    """Its gradient is linear, so that the bound's Taylor expansion is exact."""

    def __init__(self):
        super().__init__()
        self.form = nn.Parameter(torch.randn(3, 4, 4, dtype=torch.float64))

    def forward(self, x):
        return torch.einsum("ni,kij,nj->nk", x, self.form, x)


def test_the_bounds_hold_where_there_is_no_remainder():
    batch = rr.Batch(x=torch.rand(9, 4, dtype=torch.float64), y=torch.arange(9) % 3)
    metric = RobustCriterion(epsilon=0.4, num_draws=1, num_projections=50, num_steps=1)
    metric.prepare(rr.datasets.InMemory(batch))
    rows = metric.measure(rr.Probe(Quadratic(), batch.replace(index=torch.arange(9))))
    assert (rows["criterion"] <= rows["directional_bound"]).all()
    assert (rows["directional_bound"] <= rows["bound"]).all()
    assert (rows["criterion"] > 0).all()


def test_scale_does_not_count():
    batch = rr.Batch(x=torch.rand(4, 2, 3, 3, dtype=torch.float64), y=torch.tensor([0, 1, 2, 0]))
    small = net()
    large = net()
    large.load_state_dict(small.state_dict())
    for parameter in large[3].parameters():
        parameter.data *= 10
    metric = RobustCriterion(num_steps=1)
    one, other = (rr.evaluate(model, batch, [metric]) for model in (small, large))
    for key in ("", "/bound", "/directional_bound"):
        assert other[NAME + key] == pytest.approx(one[NAME + key], rel=1e-5)
    assert other[f"{NAME}/l2"] == pytest.approx(10 * one[f"{NAME}/l2"], rel=1e-5)


def test_a_linear_model_has_no_curvature(batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(18, 3)).double()
    result = rr.evaluate(model, batch, [RobustCriterion(num_steps=2)])
    assert all(value == pytest.approx(0, abs=1e-12) for value in result.values())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": 0}, "Expected `epsilon` to be a finite number above 0"),
        ({"num_draws": 0}, "Expected `num_draws` to be a whole number from 1"),
        ({"num_projections": 0}, "Expected `num_projections` to be a whole number from 1"),
        ({"num_steps": 0}, "Expected `num_steps` to be a whole number from 1"),
        ({"softplus_beta": -1}, "Expected `softplus_beta` to be a finite number above 0"),
        ({"seed": -1}, "Expected `seed` to be a whole number from 0"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        RobustCriterion(**settings)
