import pytest
import torch
from tests.reference import selective as slow
from torch import nn

import rightreasons as rr
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.objectives import OneSided


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


def test_mistakes():
    with pytest.raises(InvalidSettingError, match="`mu` to be a finite number above 0"):
        OneSided(mu=0)
    alone = rr.Batch(x=torch.zeros(2, 2), y=torch.tensor([1, 1]))
    with pytest.raises(InvalidBatchError, match="at least two classes for OneSided"):
        OneSided().prepare(InMemory(alone, Card(classes=("a", "b"))), num_passes=1)
