import pytest
import torch
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.metrics import Deletion

RATIOS = (0.0, 0.3, 1.0)


def test_equals_its_slow_twin():
    batch = rr.Batch(x=torch.rand(3, 2, 4, 4, dtype=torch.float64), y=torch.tensor([0, 1, 1]))
    layers = (nn.Conv2d(2, 3, 3, padding=1), nn.Softplus(), nn.Flatten(), nn.Linear(48, 2))
    model = nn.Sequential(*layers).double()
    found = rr.evaluate(model, batch, [Deletion(ratios=RATIOS)], max_rows=4)
    maps = [slow.saliency_map(model, x, y) for x, y in zip(batch.x, batch.y, strict=True)]
    curve = slow.insertion(
        model, batch, maps=maps, ratios=RATIOS, baseline=(0.0, 0.0), deletes=True
    )
    for ratio, value in zip(RATIOS, curve, strict=True):
        assert found[f"deletion/input_gradient/{ratio:g}"] == pytest.approx(value, rel=1e-6)
    assert found["deletion"] == pytest.approx(sum(curve) / 3, rel=1e-6)


def test_what_mattered_goes_first():
    model = nn.Linear(4, 2, bias=False)
    model.weight.data = torch.tensor([[5.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    batch = rr.Batch(x=torch.ones(2, 4), y=torch.tensor([0, 0]))
    found = rr.evaluate(model, batch, [Deletion(ratios=(0.0, 0.25))])
    assert found["deletion/input_gradient/0"] > 0.99
    assert found["deletion/input_gradient/0.25"] == 0.5
