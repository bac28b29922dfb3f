import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.attacks import PGD
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import InvalidSettingError
from rightreasons.metrics import AdversarialAccuracy


@pytest.fixture
def net():
    net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4)).double()
    with torch.no_grad():  # its kinks lie among the samples
        net[0].weight *= 4
        net[0].bias -= net[0].weight.sum(dim=1) / 2
    return net


@pytest.fixture
def data(net):
    x = torch.rand(80, 6, dtype=torch.float64)
    with torch.no_grad():
        y = net(x).argmax(dim=1)
    y[:8] = (y[:8] + 1) % 4
    return InMemory(rr.Batch(x=x, y=y), Card(valid_range=(0.0, 1.0)))


def measured(net, data, **settings):
    values = rr.evaluate(net, data, [AdversarialAccuracy(**settings)])
    return {key.removeprefix("adversarial_accuracy").strip("/"): v for key, v in values.items()}


def test_is_the_share_that_the_attack_does_not_fool(net, data):
    values = measured(net, data, epsilons=(0.05,), num_steps=7, seed=3)
    attack = PGD(epsilon=0.05, num_steps=7, seed=3)
    fooled = attack(net, data.batch.x, data.batch.y).fooled
    assert values["linf/0.05"] == values[""] == 1 - fooled.double().mean()
    assert values["clean"] == 0.9 and values["n"] == 80


def test_every_norm_radius_and_step_has_its_key(net, data):
    values = measured(
        net, data, norm=["linf", "l2"], epsilons=[0.1, 0.02], num_steps=5, step_size=[0.01, None]
    )
    keys = {
        f"{norm}/{e}{step}"
        for norm in ("linf", "l2")
        for e in (0.1, 0.02)
        for step in ("", "/0.01")
    }
    assert set(values) == {"", "clean", "n"} | keys
    for norm in ("linf", "l2"):
        for step in ("", "/0.01"):
            assert values[f"{norm}/0.1{step}"] <= values[f"{norm}/0.02{step}"] <= values["clean"]
    assert values["linf/0.1"] < values["linf/0.1/0.01"]  # five steps of 0.01 reach half as far
    assert values["linf/0.1"] <= values["l2/0.1"]
    assert values[""] <= min(values[key] for key in keys)


def test_attacks_are_told_apart(net, data):
    settings = {"epsilons": [0.1], "norm": "l2", "num_steps": 20}
    names = ("fgsm", "pgd", "apgd")
    values = {name: measured(net, data, attack=name, **settings)["l2/0.1"] for name in names}
    assert 0 < values["apgd"] <= values["pgd"] <= values["fgsm"] < 0.9


def test_stays_in_the_valid_range_of_the_data(net, data):
    narrow = InMemory(data.batch, Card(valid_range=(-1.0, 2.0)))
    wide, inside = measured(net, narrow, epsilons=[0.1]), measured(net, data, epsilons=[0.1])
    assert wide[""] <= inside[""]


def test_settings_are_checked():
    with pytest.raises(InvalidSettingError, match="Expected `attack` to be 'pgd' or"):
        AdversarialAccuracy(attack="square")
    with pytest.raises(InvalidSettingError, match="Expected `norm` to be 'linf' or 'l2'"):
        AdversarialAccuracy(norm="l1")
    with pytest.raises(InvalidSettingError, match="Expected `norm` to be 'linf' or 'l2'"):
        AdversarialAccuracy(norm=2)
    with pytest.raises(InvalidSettingError, match="`epsilons` to be a number or a list of numbers"):
        AdversarialAccuracy(epsilons=())
    with pytest.raises(InvalidSettingError, match="`epsilons` to be a finite number above 0"):
        AdversarialAccuracy(epsilons=-0.1)
    with pytest.raises(InvalidSettingError, match="Expected at least one `norm` and one `step_siz"):
        AdversarialAccuracy(norm=[])
    assert AdversarialAccuracy(epsilons=0.1).epsilons == [0.1]
    with pytest.raises(InvalidSettingError, match="Expected `step_size` to be None with attack="):
        AdversarialAccuracy(attack="apgd", step_size=0.1)
