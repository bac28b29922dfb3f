import pytest
import torch
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import InvalidSettingError
from rightreasons.metrics import RPS
from rightreasons.metrics.rps import (
    cosine_similarity,
    pearson_correlation,
    structural_similarity,
)


def net():
    layers = (nn.Conv2d(2, 3, 3, padding=1), nn.Softplus(beta=5), nn.Flatten(), nn.Linear(75, 3))
    return nn.Sequential(*layers).double()


@pytest.fixture
def data():
    batch = rr.Batch(x=torch.rand(3, 2, 5, 5, dtype=torch.float64), y=torch.tensor([0, 1, 2]))
    return InMemory(batch, Card(valid_range=(0.0, 1.0)))


def test_rps_equals_its_slow_twin(data):
    model = net()
    metric = RPS(epsilons=(0.5, 0.1), num_draws=2, seed=3)
    values = rr.evaluate(model, data, [metric], max_rows=5)
    for epsilon in (0.1, 0.5):
        expected = slow.rps(
            model, data.batch, epsilon=epsilon, num_draws=2, seed=3, valid_range=(0.0, 1.0)
        )
        for name, value in zip(("cosine", "pearson", "ssim"), expected, strict=True):
            key = f"rps/input_gradient/{name}/{epsilon}"
            assert values[key] == pytest.approx(value, rel=1e-5), key
    assert values["rps"] == values["rps/input_gradient"] == values["rps/input_gradient/cosine/0.5"]


def test_several_explainers_at_once_give_what_each_gives_alone(data):
    model, names = net(), ["input_gradient", "input_times_gradient", "guided_backprop", "lrp"]
    together = rr.evaluate(model, data, [RPS(explainers=names, num_draws=2)])
    for name in names:
        alone = rr.evaluate(model, data, [RPS(explainers=name, num_draws=2)])
        assert alone.pop("rps") == together[f"rps/{name}"]
        assert alone.items() <= together.items()
    assert together["rps"] == together["rps/input_gradient"]


def test_a_linear_model_is_not_moved_by_noise(data):
    model = nn.Sequential(nn.Flatten(), nn.Linear(50, 3)).double()
    outcome = rr.evaluate(model, data, ["rps"])
    assert all(value == pytest.approx(1.0, abs=1e-6) for value in outcome.values())
    assert len(outcome) == 2 + 9


def test_more_noise_is_less_alike(data):
    values = rr.evaluate(net(), data, [RPS(epsilons=[0.02, 0.2, 0.6])])
    for name in ("cosine", "pearson", "ssim"):
        low, middle, high = (values[f"rps/input_gradient/{name}/{e:g}"] for e in (0.02, 0.2, 0.6))
        assert low > middle > high


def test_columns_have_no_structure():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    values = rr.evaluate(rr.models.mlp(inputs=3, hidden=(4,), classes=2), batch, [RPS(num_draws=2)])
    assert not [key for key in values if "ssim" in key]
    assert [key for key in values if "pearson" in key]


def test_noise_stays_in_the_valid_range():
    seen = []
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    batch = rr.Batch(x=torch.tensor([[[[0.0, 1.0], [0.5, 0.7]]]]), y=torch.tensor([0]))
    rr.evaluate(model, InMemory(batch), [RPS(epsilons=[0.9])])
    rows = torch.cat(seen).flatten(1)
    assert rows.min() == 0
    assert rows.max() == 1
    assert rows[:, 3].unique().numel() > 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilons": [0.1, 0]}, "Expected `epsilons` to be a finite number above 0"),
        ({"epsilons": []}, "Expected `epsilons` to be a number or a list of numbers"),
        ({"num_draws": 0}, "Expected `num_draws` to be a whole number from 1"),
        ({"seed": -1}, "Expected `seed` to be a whole number from 0"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        RPS(**settings)


ALL = {
    "cosine": (cosine_similarity, lambda one, other: slow.cosine(slow.flat(one), slow.flat(other))),
    "pearson": (
        pearson_correlation,
        lambda one, other: slow.pearson(slow.flat(one), slow.flat(other)),
    ),
    "ssim": (structural_similarity, slow.ssim),
}


@pytest.fixture(params=ALL)
def pair(request):
    return ALL[request.param]


def test_similarity_equals_its_slow_twin(pair):
    fast, twin = pair
    one, other = torch.rand(3, 1, 9, 5), torch.rand(3, 1, 9, 5)
    expected = [twin(a[0].tolist(), b[0].tolist()) for a, b in zip(one, other, strict=True)]
    assert fast(one, other).tolist() == pytest.approx(expected, rel=1e-6)


def test_a_map_is_like_itself_and_unlike_others(pair):
    fast, _ = pair
    one, other = torch.rand(4, 1, 3, 3), torch.rand(4, 1, 3, 3)
    assert fast(one, one).tolist() == pytest.approx([1.0] * 4)
    assert (fast(one, other) < 0.99).all()
    assert (fast(one, other) >= -1).all()


def test_scale_counts_for_structure_alone():
    one, other = torch.rand(2, 1, 8, 8), torch.rand(2, 1, 8, 8)
    torch.testing.assert_close(cosine_similarity(one, other), cosine_similarity(3 * one, other))
    torch.testing.assert_close(
        pearson_correlation(one, other), pearson_correlation(one, 2 * other + 1)
    )
    assert (structural_similarity(one, 2 * one) < 1).all()


def test_nothing_is_like_nothing_and_unlike_something(pair):
    fast, _ = pair
    nothing, something = torch.zeros(1, 1, 4, 4), torch.rand(1, 1, 4, 4)
    assert fast(nothing, nothing).tolist() == [1.0]
    assert fast(nothing, something).item() == pytest.approx(0.0, abs=0.5)
    assert fast(nothing, something).item() < 1


def test_constant_maps_have_no_correlation_but_with_each_other():
    flat, bumpy = torch.full((1, 1, 3, 3), 1 / 3), torch.rand(1, 1, 3, 3)
    assert pearson_correlation(flat, bumpy).tolist() == [0.0]
    assert pearson_correlation(flat, 0.1 * flat).tolist() == [1.0]
