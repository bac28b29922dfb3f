import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics import Deletion, Insertion
from rightreasons.metrics.insertion import RATIOS, importance_ranks, probability_curve


def test_the_ratios_are_the_paper_s():
    assert len(RATIOS) == 20
    assert RATIOS[:2] == (0.0, 0.05) and RATIOS[-1] == 0.95


def test_equal_values_rank_in_reading_order():
    maps = torch.tensor([[[[1.0, 3.0], [3.0, 1.0]]]])
    assert importance_ranks(maps).tolist() == [[2, 0, 1, 3]]


class Sum(nn.Module):
    """Softmax of (sum of x, 0): shows how much is there."""

    def __init__(self):
        super().__init__()
        self.num_rows = 0

    def forward(self, x):
        self.num_rows += len(x)
        total = x.flatten(1).sum(dim=1)
        return torch.stack([total, torch.zeros_like(total)], dim=1)


def test_all_ratios_of_all_samples_are_passed_once():
    model = Sum()
    x = torch.arange(12.0).reshape(2, 1, 2, 3)
    probe = rr.Probe(model, rr.Batch(x=x, y=torch.tensor([0, 0])), max_rows=3)
    ranks = importance_ranks(x)
    model.num_rows = 0
    found = probability_curve(
        probe, ranks, ratios=(0.0, 0.5, 1.0), baseline=torch.tensor(0.0), deletes=False
    )
    assert model.num_rows == 1 + 2 * 2  # the empty image once
    expected = [[0, 12, 15], [0, 30, 51]]
    assert found.logit().round().tolist()[0] == expected[0]
    assert found[1].tolist() == pytest.approx(torch.tensor(expected[1]).double().sigmoid().tolist())
    deleted = probability_curve(
        probe, ranks, ratios=(0.0, 0.5, 1.0), baseline=torch.tensor(0.0), deletes=True
    )
    assert deleted.logit().round().tolist()[0] == [15, 3, 0]


@pytest.mark.parametrize("metric", [Insertion, Deletion])
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ratios": []}, "Expected `ratios` to be a number or a list of numbers, 1 or more"),
        ({"ratios": "ab"}, "Expected `ratios` to be a number or a list of numbers, 1 or more"),
        ({"ratios": 1.2}, "Expected `ratios` to be fractions from 0 to 1"),
        ({"ratios": [0.5, 1.2]}, "Expected `ratios` to be fractions from 0 to 1"),
        ({"sign": "negative"}, "Expected `sign` to be 'absolute' or 'positive' or 'signed'"),
    ],
)
def test_settings_out_of_range(metric, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        metric(**settings)


def test_one_ratio_is_a_list_of_one():
    assert Insertion(ratios=0.5).ratios == (0.5,)


def test_a_baseline_for_other_channels():
    batch = rr.Batch(x=torch.rand(2, 3, 4, 4), y=torch.tensor([0, 1]))
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 2))
    with pytest.raises(InvalidBatchError, match="a number or 3 of them.*but got 2"):
        rr.evaluate(model, batch, [Insertion(baseline=[0.1, 0.2])])
