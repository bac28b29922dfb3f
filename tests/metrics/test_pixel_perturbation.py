import pytest
import torch
from tests.reference import leakage as slow
from tests.reference.metrics import saliency_map
from torch import nn

import rightreasons as rr
from rightreasons.explainers import InputGradient
from rightreasons.metrics import PixelPerturbation

RATIOS = (0.2, 0.5, 1.0)
BASELINE = (0.4, 0.6)


def net():
    layers = (nn.Conv2d(2, 3, 3, padding=1), nn.Softplus(), nn.Flatten(), nn.Linear(48, 3))
    return nn.Sequential(*layers).double()


def test_equals_its_slow_twin(tiny_batch):
    model = net()
    metric = PixelPerturbation(explainers="input_gradient", ratios=RATIOS, baseline=BASELINE)
    values = rr.evaluate(model, tiny_batch, [metric], max_rows=5)
    predicted = model(tiny_batch.x).argmax(dim=1)
    maps = [saliency_map(model, x, y) for x, y in zip(tiny_batch.x, predicted, strict=True)]
    tops, bottoms = slow.pixel_perturbation(
        model, tiny_batch, maps=maps, ratios=RATIOS, baseline=BASELINE
    )
    name = "pixel_perturbation/input_gradient"
    for ratio, top, bottom in zip(RATIOS, tops, bottoms, strict=True):
        assert values[f"{name}/{ratio:g}"] == pytest.approx(top - bottom, rel=1e-4, abs=1e-6)
    assert values[f"{name}/top"] == pytest.approx(sum(tops) / 3, rel=1e-5)
    assert values[f"{name}/bottom"] == pytest.approx(sum(bottoms) / 3, rel=1e-5)
    mean = (sum(tops) - sum(bottoms)) / 3
    assert values["pixel_perturbation"] == values[name] == pytest.approx(mean, rel=1e-4)
    assert values[f"{name}/1"] == 0  # everything is gone at both ends
    assert values["pixel_perturbation/n"] == 6


def test_smooth_grad_is_what_it_asks_if_nothing_is_said():
    model = nn.Linear(3, 2, bias=False)
    model.weight.data = torch.tensor([[4.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    batch = rr.Batch(x=torch.ones(2, 3), y=torch.tensor([1, 0]))
    values = rr.evaluate(model, batch, [PixelPerturbation(ratios=[1 / 3])])
    assert values["pixel_perturbation/smooth_grad/top"] == pytest.approx(4 / 5)
    assert values["pixel_perturbation/smooth_grad/bottom"] == 0
    assert values["pixel_perturbation"] == pytest.approx(4 / 5)


def test_logits_of_zero_do_not_count():
    model = nn.Linear(2, 2, bias=False)
    model.weight.data.zero_()
    batch = rr.Batch(x=torch.ones(2, 2), y=torch.tensor([1, 0]))
    assert rr.evaluate(model, batch, ["pixel_perturbation"]) == {"pixel_perturbation/n": 0.0}


def test_several_explainers(tiny_batch):
    explainers = {"own": InputGradient(), "loss": InputGradient(target="loss")}
    metric = PixelPerturbation(explainers=explainers, ratios=[0.5])
    values = rr.evaluate(net(), tiny_batch, [metric])
    assert values["pixel_perturbation"] == values["pixel_perturbation/own"]
    assert "pixel_perturbation/loss/0.5" in values
