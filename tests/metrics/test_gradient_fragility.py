import math

import pytest
import torch
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import InvalidSettingError
from rightreasons.metrics import GradientFragility


def net_of(seed, *, hidden=(6,)):
    torch.manual_seed(seed)
    return rr.models.mlp(inputs=5, hidden=hidden, classes=3).double()


def batch_of(seed, *, size=6, soft=False):
    generator = torch.Generator().manual_seed(seed)
    mask = (torch.rand(size, 5, generator=generator) < 0.4).double()
    mask[0] = torch.tensor([1.0, 0, 0, 0, 0])
    mask[1] = 0
    if soft:
        mask = mask * torch.rand(size, 5, generator=generator, dtype=torch.float64)
    return rr.Batch(
        x=torch.rand(size, 5, generator=generator, dtype=torch.float64),
        y=torch.randint(3, (size,), generator=generator),
        mask=mask,
    )


def measured(net, batch, **settings):
    data = InMemory(batch, Card(valid_range=(0.0, 1.0)))
    values = rr.evaluate(net, data, [GradientFragility(**settings)])
    return {key.removeprefix("gradient_fragility").strip("/"): v for key, v in values.items()}


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_equals_its_slow_twin(seed, soft):
    net, batch = net_of(seed), batch_of(seed, soft=soft)
    values = measured(net, batch, epsilon=0.2)
    expected = slow.gradient_fragility(net, batch, epsilon=0.2, valid_range=(0.0, 1.0))
    assert {key: values[key] for key in expected} == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("target", ["loss", "logit", "margin"])
@pytest.mark.parametrize("hidden", [(), (6,), (6, 4)])
def test_no_attack_finds_more_than_was_proved(target, hidden):
    for seed in range(5):
        net, batch = net_of(seed, hidden=hidden), batch_of(seed)
        data = InMemory(batch)
        metric = GradientFragility(epsilon=0.3, target=target, num_samples=8, num_steps=5)
        metric.prepare(data)
        taken = data.take(torch.arange(len(batch)))
        probe = rr.Probe(net, taken, needs_gradient="inside", create_graph=False)
        rows = metric.measure(probe)
        assert (rows["attack"] <= rows["proved"] + 1e-12).all()
        assert (rows["attack_max"] <= rows["proved_max"] + 1e-12).all()


def test_the_search_finds_something():
    values = measured(net_of(0), batch_of(0, size=20), epsilon=0.3)
    assert 0 < values["attack"] < values[""]
    assert values["attack_max"] <= values["max"]
    more = measured(net_of(0), batch_of(0, size=20), epsilon=0.3, num_samples=30, num_steps=10)
    assert more["attack"] > values["attack"]


def test_wider_boxes_are_more_fragile():
    narrow, wide = (measured(net_of(1), batch_of(1), epsilon=e) for e in (0.05, 0.2))
    for key in ("", "max", "core", "core_max"):
        assert narrow[key] < wide[key]


def test_a_linear_model_has_logits_that_are_not_fragile():
    values = measured(net_of(0, hidden=()), batch_of(0), target="logit")
    assert values[""] == values["max"] == values["core"] == values["attack"] == 0
    assert math.isnan(values["ratio"])


def test_only_samples_with_masks_count():
    net, batch = net_of(2), batch_of(2)
    counts = batch.mask.any(dim=1)
    values = measured(net, batch)
    assert values["n"] == counts.sum()
    assert values[""] == pytest.approx(measured(net, batch[counts])[""])
    assert measured(net, batch[1:2]) == {"n": 0.0}


def test_a_sample_all_masked_has_no_core():
    net, batch = net_of(2), batch_of(2)
    mask = batch.mask.clone()
    mask[2] = 1
    rest = [n for n in range(len(batch)) if n != 2]
    with_full = measured(net, batch.replace(mask=mask))
    assert with_full["core"] == pytest.approx(measured(net, batch[torch.tensor(rest)])["core"])
    everything = measured(net, batch.replace(mask=torch.ones_like(mask)))
    assert math.isnan(everything["core"])


def test_the_core_can_be_left_out():
    values = measured(net_of(0), batch_of(0), core=False)
    assert set(values) == {"", "max", "attack", "attack_max", "n"}
    assert values[""] == measured(net_of(0), batch_of(0))[""]
    with pytest.raises(InvalidSettingError, match="Expected `core` to be True or False"):
        GradientFragility(core=1)


def test_widths_beyond_all_numbers_are_shown():
    net = net_of(0).float()
    for parameter in net.parameters():
        parameter.data *= 1e25
    batch = batch_of(0).to(torch.float32)
    values = measured(net, batch)
    assert not math.isfinite(values[""])
    assert not math.isfinite(values["max"])


def test_images_with_one_mask_for_all_channels():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(18, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    x = torch.rand(3, 2, 3, 3, dtype=torch.float64)
    mask = (torch.rand(3, 1, 3, 3) < 0.5).double()
    y = torch.tensor([0, 1, 0])
    shared = measured(net, rr.Batch(x=x, y=y, mask=mask))
    full = measured(net, rr.Batch(x=x, y=y, mask=mask.expand_as(x)))
    assert shared == pytest.approx(full)
