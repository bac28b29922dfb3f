import pytest
import torch
from tests.reference import leakage as slow
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.metrics import FeatureLeakage


def smooth_net():
    layers = (nn.Flatten(), nn.Linear(32, 6), nn.Softplus(), nn.Linear(6, 3))
    return nn.Sequential(*layers).double()


def test_equals_its_slow_twin(tiny_batch):
    model = smooth_net()
    mask = tiny_batch.mask.clone()
    mask[2] = 0  # nothing to leak into
    batch = tiny_batch.replace(mask=mask)
    expected, fraction = slow.feature_leakage(model, batch, num_steps=200, baseline=0.2)
    for quadrature, num_steps in (("gauss_legendre", 8), ("trapezoid", 60)):
        metric = FeatureLeakage(baseline=0.2, num_steps=num_steps, quadrature=quadrature)
        values = rr.evaluate(model, batch, [metric], max_rows=7)
        assert values["feature_leakage"] == pytest.approx(expected, rel=1e-4)
        assert values["feature_leakage/share"] == pytest.approx(fraction, rel=1e-4)
        assert values["feature_leakage/n"] == 5
        low, high = values["feature_leakage/low"], values["feature_leakage/high"]
        assert low < values["feature_leakage"] < high


def test_a_linear_model_leaks_its_weights_times_the_features():
    model = nn.Linear(3, 2, bias=False)
    model.weight.data = torch.tensor([[3.0, 4.0, 7.0], [0.0, 0.0, 0.0]])
    x, mask = torch.tensor([[1.0, 2.0, 1.0]]), torch.tensor([[1.0, 0.5, 0.0]])
    batch = rr.Batch(x=x, y=torch.tensor([0]), mask=mask)
    values = rr.evaluate(model, batch, ["feature_leakage"])
    assert values["feature_leakage"] == pytest.approx(5.0)  # of (3, 8 / 2)
    assert values["feature_leakage/share"] == pytest.approx(7 / 18)
    flat = rr.evaluate(model, batch.replace(y=torch.tensor([1])), ["feature_leakage"])
    assert flat["feature_leakage"] == flat["feature_leakage/share"] == 0


def test_the_share_does_not_mind_the_scale_of_the_logits(tiny_batch):
    model = smooth_net()
    before = rr.evaluate(model, tiny_batch, ["feature_leakage"])
    model[-1].weight.data /= 10
    after = rr.evaluate(model, tiny_batch, ["feature_leakage"])
    assert after["feature_leakage"] == pytest.approx(before["feature_leakage"] / 10)
    assert after["feature_leakage/share"] == pytest.approx(before["feature_leakage/share"])


def test_without_masks_there_is_nothing_to_measure(tiny_batch):
    empty = tiny_batch.replace(mask=torch.zeros_like(tiny_batch.mask))
    assert rr.evaluate(smooth_net(), empty, ["feature_leakage"]) == {"feature_leakage/n": 0.0}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_steps": 0}, "Expected `num_steps` to be a whole number from 1"),
        ({"quadrature": "riemann"}, "Expected `quadrature` to be 'gauss_legendre' or 'trapezoid'"),
        ({"baseline": "black"}, "Expected `baseline` to be a number"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        FeatureLeakage(**settings)
