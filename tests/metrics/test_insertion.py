import pytest
import torch
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.metrics import Insertion

RATIOS = (0.0, 0.25, 0.6, 1.0)
BASELINE = (0.4, 0.6)


@pytest.fixture
def batch():
    return rr.Batch(x=torch.rand(4, 2, 4, 4, dtype=torch.float64), y=torch.tensor([0, 1, 2, 0]))


def net():
    layers = (nn.Conv2d(2, 3, 3, padding=1), nn.Softplus(), nn.Flatten(), nn.Linear(48, 3))
    return nn.Sequential(*layers).double()


def test_equals_its_slow_twin(batch):
    model = net()
    metric = Insertion(ratios=RATIOS, baseline=BASELINE)
    found = rr.evaluate(model, batch, [metric], max_rows=3)
    maps = [slow.saliency_map(model, x, y) for x, y in zip(batch.x, batch.y, strict=True)]
    curve = slow.insertion(model, batch, maps=maps, ratios=RATIOS, baseline=BASELINE)
    for ratio, value in zip(RATIOS, curve, strict=True):
        assert found[f"insertion/input_gradient/{ratio:g}"] == pytest.approx(value, rel=1e-6)
    mean = sum(curve) / len(curve)
    assert found["insertion"] == found["insertion/input_gradient"] == pytest.approx(mean, rel=1e-6)


def test_the_right_order_is_better_than_the_wrong_one():
    """Only the first two columns matter, and one of them speaks against the label."""
    model = nn.Linear(4, 2, bias=False)
    model.weight.data = torch.tensor([[8.0, -4.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    batch = rr.Batch(x=torch.ones(3, 4), y=torch.tensor([0, 0, 0]))
    values = {
        sign: rr.evaluate(model, batch, [Insertion(sign=sign)])["insertion"]
        for sign in ("signed", "positive", "absolute")
    }
    assert values["signed"] > values["absolute"]
    assert values["positive"] == pytest.approx(values["absolute"])  # ties keep their order


def test_several_explainers(batch):
    found = rr.evaluate(net(), batch, [Insertion(explainers=["lrp", "input-gradient"])])
    assert found["insertion"] == found["insertion/lrp"]
    assert found["insertion/lrp/0"] == found["insertion/input_gradient/0"]
    assert len(found) == 1 + 2 * 21
