import pytest
import torch
from tests.reference import selective as slow
from torch import nn
from torch.nn import functional

import rightreasons as rr
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.models import Abstaining, normalised
from rightreasons.objectives import DeepGamblers, OneSided, SelectiveNet, SideTerm


def test_layers_are_found_inside_other_models():
    net = normalised(Abstaining(nn.Sequential(nn.Flatten(), nn.Linear(4, 4))), mean=0, deviation=1)
    batch = rr.Batch(x=torch.rand(2, 1, 2, 2), y=torch.tensor([0, 1]))
    term = DeepGamblers()
    assert isinstance(term, SideTerm)
    assert term.layers_in(net, batch.x) == ("net.all_logits",)
    assert term.as_objective()(net, batch).total.isfinite()


def test_a_model_without_them_and_a_probe_without_them_are_refused():
    batch = rr.Batch(x=torch.rand(2, 4), y=torch.tensor([0, 1]))
    with pytest.raises(InvalidSettingError, match="a layer called 'all_logits', but Linear has no"):
        DeepGamblers().as_objective()(nn.Linear(4, 4), batch)
    with pytest.raises(InvalidSettingError, match=r"a probe made with `layers=\['all_logits'\]`"):
        DeepGamblers()(rr.Probe(Abstaining(nn.Linear(4, 4)), batch))


def probe_of(logits, y):
    batch = rr.Batch(x=logits, y=y)
    return rr.Probe(Abstaining(nn.Identity()), batch, layers=["all_logits"])


@pytest.mark.parametrize("reward", [1.1, 2.2, 10])
def test_deep_gamblers_equals_its_slow_twin(reward):
    logits, y = 3 * torch.randn(6, 4, dtype=torch.float64), torch.tensor([0, 1, 2] * 2)
    losses = DeepGamblers(reward=reward)(probe_of(logits, y))
    expected = [
        slow.deep_gamblers(row, label, reward)
        for row, label in zip(logits.tolist(), y.tolist(), strict=True)
    ]
    assert losses.tolist() == pytest.approx(expected)


def test_is_finite_where_probabilities_vanish():
    logits = torch.tensor([[-500.0, 500.0, -500.0]], requires_grad=True)
    loss = DeepGamblers()(probe_of(logits, torch.tensor([0])))
    loss.sum().backward()
    assert loss.isfinite().all() and logits.grad.isfinite().all()


def test_begins_with_cross_entropy():
    logits, y = torch.randn(4, 3), torch.tensor([0, 1] * 2)
    term, probe = DeepGamblers(warm_up=0.5), probe_of(logits, y)
    term.prepare(InMemory(probe.batch), num_passes=4)
    plain = functional.cross_entropy(logits[:, :2], y, reduction="none")
    later = DeepGamblers()(probe)
    for expected in (plain, plain, later, later):
        torch.testing.assert_close(term(probe), expected)


def test_mistakes_of_deep_gamblers():
    for reward in (1, 0.5, float("inf"), "much"):
        with pytest.raises(InvalidSettingError, match="`reward` to be a finite number above 1"):
            DeepGamblers(reward=reward)
    with pytest.raises(InvalidSettingError, match="`warm_up` to be a number from 0 to below 1"):
        DeepGamblers(warm_up=1.0)


class Given(nn.Module):
    """Logits, the selection and the auxiliary logits are the features themselves."""

    def __init__(self):
        super().__init__()
        self.selection = nn.Identity()
        self.auxiliary_logits = nn.Identity()

    def forward(self, x):
        self.selection(x[:, 3:4])
        self.auxiliary_logits(x[:, 4:])
        return x[:, :3]


def selective_losses(x, y, **settings):
    probe = rr.Probe(Given(), rr.Batch(x=x, y=y), layers=["selection", "auxiliary_logits"])
    return SelectiveNet(**settings)(probe)


@pytest.mark.parametrize("coverage", [0.2, 0.95])
def test_selective_net_equals_its_slow_twin(coverage):
    x, y = 2 * torch.randn(6, 7, dtype=torch.float64), torch.tensor([0, 1, 2] * 2)
    settings = {"coverage": coverage, "weight": 16.0, "alpha": 0.3}
    losses = selective_losses(x, y, **settings)
    parts = (x[:, :3].tolist(), x[:, 3].tolist(), x[:, 4:].tolist(), y.tolist())
    assert losses.shape == (6,)
    assert losses.mean().item() == pytest.approx(slow.selective_net(*parts, **settings))


def test_is_finite_where_nothing_is_selected():
    x = torch.zeros(2, 7)
    x[:, 3] = -1000
    x.requires_grad_()
    losses = selective_losses(x, torch.tensor([0, 1]))
    losses.sum().backward()
    assert losses.isfinite().all() and x.grad.isfinite().all()


def test_mistakes_of_selective_net():
    for name in ("coverage", "alpha"):
        with pytest.raises(InvalidSettingError, match=f"`{name}` to be a share above 0 and up to"):
            SelectiveNet(**{name: 1.2})
    with pytest.raises(InvalidSettingError, match="`weight` to be a finite number above 0"):
        SelectiveNet(weight=0)


def test_the_mean_over_the_data_equals_its_slow_twin():
    logits = 3 * torch.randn(9, 3, dtype=torch.float64)
    y = torch.tensor([0, 0, 0, 0, 0, 1, 1, 2, 2])  # classes of several sizes
    batch = rr.Batch(x=logits, y=y)
    term = OneSided(mu=1.67)
    term.prepare(InMemory(batch), num_passes=1)
    losses = term(rr.Probe(nn.Identity(), batch))
    assert losses.shape == (9,)
    expected = slow.one_sided(logits.tolist(), y.tolist(), 1.67)
    assert losses.mean().item() == pytest.approx(expected)


def test_before_the_data_are_seen_classes_are_of_one_size():
    logits, y = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 2] * 2)
    batch = rr.Batch(x=logits, y=y)
    prepared = OneSided()
    prepared.prepare(InMemory(batch), num_passes=1)
    probe = rr.Probe(nn.Identity(), batch)
    torch.testing.assert_close(OneSided()(probe), prepared(probe), rtol=1e-6, atol=1e-6)


def test_is_finite_and_not_flat_where_the_model_is_sure_and_wrong():
    logits = torch.tensor([[-300.0, 300.0, 0.0], [300.0, -300.0, 300.0]], requires_grad=True)
    losses = OneSided()(rr.Probe(nn.Identity(), rr.Batch(x=logits, y=torch.tensor([0, 0]))))
    losses.sum().backward()
    assert losses.isfinite().all() and logits.grad.isfinite().all()
    assert logits.grad[0, 1] > 0


def test_mistakes_of_one_sided():
    with pytest.raises(InvalidSettingError, match="`mu` to be a finite number above 0"):
        OneSided(mu=0)
    alone = rr.Batch(x=torch.zeros(2, 2), y=torch.tensor([1, 1]))
    with pytest.raises(InvalidBatchError, match="at least two classes for OneSided"):
        OneSided().prepare(InMemory(alone, Card(classes=("a", "b"))), num_passes=1)
