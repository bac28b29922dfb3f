import itertools

import pytest
import torch
from tests.reference import metrics as slow

import rightreasons as rr
from rightreasons.datasets import InMemory
from rightreasons.metrics import CertifiedChange


def net_of(seed, *, hidden=(6,)):
    torch.manual_seed(seed)
    net = rr.models.mlp(inputs=4, hidden=hidden, classes=3).double()
    for parameter in net.parameters():
        parameter.data *= 1 + seed % 3
    return net


def batch_of(seed, *, size=5):
    generator = torch.Generator().manual_seed(seed)
    mask = torch.tensor([[1.0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1], [0, 0.5, 1, 0]])
    return rr.Batch(
        x=torch.rand(size, 4, generator=generator, dtype=torch.float64),
        y=torch.randint(3, (size,), generator=generator),
        mask=mask.double()[:size],
    )


def rows_of(net, batch, **settings):
    data = InMemory(batch)
    metric = CertifiedChange(**settings)
    metric.prepare(data)
    taken = data.take(torch.arange(len(batch)))
    return metric.measure(rr.Probe(net, taken, needs_gradient="inside", create_graph=False))


def measured(net, batch, **settings):
    values = rr.evaluate(net, batch, [CertifiedChange(**settings)])
    return {key.removeprefix("certified_change").strip("/"): v for key, v in values.items()}


@pytest.mark.parametrize("seed", range(4))
def test_equals_its_slow_twin(seed):
    net, batch = net_of(seed), batch_of(seed)
    values = measured(net, batch, epsilon=0.2)
    expected = slow.certified_change(net, batch, epsilon=0.2, valid_range=(0.0, 1.0))
    assert {key: values[key] for key in expected} == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("target", ["loss", "logit", "margin"])
@pytest.mark.parametrize("hidden", [(), (6,), (6, 5)])
@pytest.mark.parametrize("epsilon", [0.01, 0.3])
def test_no_attack_and_no_corner_changes_more_than_was_proved(target, hidden, epsilon):
    value = rr.Target(target)
    for seed in range(8):
        net, batch = net_of(seed, hidden=hidden), batch_of(seed)
        rows = rows_of(net, batch, epsilon=epsilon, target=target, num_samples=4, num_steps=8)
        assert (rows["attack"] <= rows["proved"] + 1e-12).all()
        nominal = value(net(batch.x), batch.y)
        for signs in itertools.product((-1.0, 1.0), repeat=4):
            moved = batch.x + epsilon * batch.mask * torch.tensor(signs)
            change = (value(net(moved.clamp(0, 1)), batch.y) - nominal).abs()
            assert (change <= rows["proved"] + 1e-12).all()


def test_a_linear_model_reaches_what_was_proved():
    net, batch = net_of(0, hidden=()), batch_of(0)
    rows = rows_of(net, batch, epsilon=0.05)
    free = (batch.x > 0.05) & (batch.x < 0.95) | (batch.mask == 0)
    reached = free.all(dim=1)
    assert reached.any()
    assert torch.allclose(rows["attack"][reached], rows["proved"][reached])


def test_the_valid_range_counts():
    net, batch = net_of(0, hidden=()), batch_of(0)
    inner = measured(net, batch.replace(x=torch.full_like(batch.x, 0.5)), epsilon=10.0)
    weights = net[-1].weight.detach() if hasattr(net, "__getitem__") else None
    steep = weights[batch.y].abs()
    expected = (steep * 0.5 * (batch.mask > 0))[batch.mask.any(dim=1)].sum(dim=1).mean()
    assert inner[""] == pytest.approx(float(expected))


def test_only_samples_with_masks_count():
    net, batch = net_of(2), batch_of(2)
    values = measured(net, batch)
    assert values["n"] == 4
    assert set(values) == {"", "max", "attack", "attack_max", "n"}
    assert 0 < values["attack"] <= values[""] <= values["max"]
    assert values["attack"] <= values["attack_max"] <= values["max"]
    assert measured(net, batch[1:2]) == {"n": 0.0}


def test_without_a_search_nothing_is_found():
    values = measured(net_of(1), batch_of(1), num_samples=0, num_steps=0)
    assert values["attack"] == 0 < values[""]
