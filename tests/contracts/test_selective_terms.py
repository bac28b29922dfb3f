"""What terms for models that may abstain promise; they need such models."""

import copy
import pickle

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.models import Abstaining, SelectiveHeads
from rightreasons.objectives import DeepGamblers, SelectiveNet


def abstaining():
    return Abstaining(
        nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 4))
    ).double()


def selecting():
    body = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Tanh())
    heads = SelectiveHeads(body=body, num_features=6, classes=3, hidden=4, activation="softplus")
    return heads.double()


CASES = {
    "deep_gamblers": (DeepGamblers, abstaining),
    "selective_net": (lambda: SelectiveNet(coverage=0.9), selecting),
    "selective_net covered": (lambda: SelectiveNet(coverage=0.01), selecting),
}


@pytest.fixture(params=CASES)
def case(request):
    make_term, make_net = CASES[request.param]
    return make_term(), make_net()


@pytest.fixture
def batch():
    return rr.Batch(x=torch.rand(7, 5, dtype=torch.float64), y=torch.tensor([0, 1, 2, 0, 1, 2, 0]))


def value(term, net, batch):
    return term.as_objective()(net, batch).total


def test_parameter_gradients_equal_finite_differences(case, batch):
    term, net = case
    net.eval()
    value(term, net, batch).backward()
    for parameter in net.parameters():
        direction = torch.randn_like(parameter)
        slope = float((parameter.grad * direction).sum())
        ends = []
        with torch.no_grad():
            for step in (1e-6, -1e-6):
                parameter += step * direction
                ends.append(value(term, net, batch).item())
                parameter -= step * direction
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-7)


def test_the_model_is_left_as_a_plain_pass_leaves_it(case, batch):
    term, net = case
    plain = copy.deepcopy(net)
    plain(batch.x)
    value(term, net, batch)
    assert all(module.training and not module._forward_hooks for module in net.modules())
    assert all(parameter.grad is None for parameter in net.parameters())
    for ours, theirs in zip(net.buffers(), plain.buffers(), strict=True):
        assert torch.equal(ours, theirs)


def test_copies_and_values_without_gradients_are_the_same(case, batch):
    term, net = case
    net.eval()
    first = value(term, net, batch)
    with torch.no_grad():
        assert value(term, net, batch).item() == pytest.approx(first.item(), rel=1e-12)
    for twin in (copy.deepcopy(term), pickle.loads(pickle.dumps(term))):
        assert torch.equal(value(twin, net, batch), first)


def test_a_fit_lowers_it(case, batch):
    term, net = case
    before = value(term, net.eval(), batch).item()
    rr.fit(net.train(), term, batch, epochs=30, lr=0.02, accelerator="cpu", progress=False)
    assert value(term, net, batch).item() < before
