import pytest
import torch
from sklearn.metrics import accuracy_score
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.metrics import Accuracy


def measured(logits, y):
    return rr.evaluate(nn.Identity(), rr.Batch(x=logits, y=y), [Accuracy()])


def test_counts_right_answers():
    logits = torch.tensor([[2.0, 1.0], [0.0, 1.0], [5.0, -5.0], [0.0, 0.5]])
    values = measured(logits, torch.tensor([0, 1, 1, 1]))
    assert values["accuracy"] == 0.75
    assert values["accuracy/n"] == 4


def test_equals_its_slow_twin_and_scikit_learn():
    logits, y = torch.randn(200, 4), torch.randint(4, (200,))
    value = measured(logits, y)["accuracy"]
    assert value == slow.accuracy(logits, y)
    assert value == pytest.approx(accuracy_score(y.numpy(), logits.argmax(dim=1).numpy()))


def test_the_interval_holds_the_value_and_shrinks_with_more_samples():
    logits = torch.tensor([[1.0, 0.0]])
    y = torch.tensor([0, 0, 0, 1])
    few = measured(logits.expand(40, 2), y.repeat(10))
    many = measured(logits.expand(4000, 2), y.repeat(1000))
    for values in (few, many):
        assert values["accuracy/low"] < 0.75 < values["accuracy/high"]
    width = [values["accuracy/high"] - values["accuracy/low"] for values in (few, many)]
    assert 8 < width[0] / width[1] < 12  # a tenth, for a hundred times as many
