import pytest
import torch
from tests.reference import selective as slow
from torch import nn
from torch.nn import functional

import rightreasons as rr
from rightreasons.datasets import InMemory
from rightreasons.errors import InvalidSettingError
from rightreasons.models import Abstaining
from rightreasons.objectives import DeepGamblers


def probe_of(logits, y):
    batch = rr.Batch(x=logits, y=y)
    return rr.Probe(Abstaining(nn.Identity()), batch, layers=["all_logits"])


@pytest.mark.parametrize("reward", [1.1, 2.2, 10])
def test_equals_its_slow_twin(reward):
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


def test_mistakes():
    for reward in (1, 0.5, float("inf"), "much"):
        with pytest.raises(InvalidSettingError, match="`reward` to be a finite number above 1"):
            DeepGamblers(reward=reward)
    with pytest.raises(InvalidSettingError, match="`warm_up` to be a number from 0 to below 1"):
        DeepGamblers(warm_up=1.0)
