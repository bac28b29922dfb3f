import pytest
import torch
from tests.reference import leakage as slow
from torch import nn

import rightreasons as rr
from rightreasons.datasets import InMemory
from rightreasons.errors import InvalidBatchError, InvalidSettingError, UnknownNameError
from rightreasons.metrics.out_of_distribution import SCORES, auroc, ood_auroc


def test_ties_count_half_as_in_the_slow_twin():
    positive, negative = torch.tensor([3, 1, 2, 2, 0]), torch.tensor([2, 2, 1, 5])
    expected = slow.auroc(positive.tolist(), negative.tolist())
    assert auroc(positive, negative) == pytest.approx(expected, abs=1e-12)
    assert auroc(torch.ones(3), torch.ones(5)) == 0.5
    assert auroc(positive, negative) == pytest.approx(1 - auroc(negative, positive))


def test_every_score_equals_its_slow_twin(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    other = rr.Batch(x=3 * torch.rand(5, 2, 4, 4).double(), y=torch.full((5,), 99))  # other labels
    result = ood_auroc(model, InMemory(tiny_batch), other, batch_size=4)
    inside = [slow.ood_scores(model, x) for x in tiny_batch.x]
    outside = [slow.ood_scores(model, x) for x in other.x]
    assert tuple(result) == SCORES
    for name in SCORES:
        expected = slow.auroc([s[name] for s in inside], [s[name] for s in outside])
        assert result[name] == pytest.approx(expected), name


def test_the_model_is_left_as_it_was(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(32, 3)).double()
    first = ood_auroc(model, tiny_batch, tiny_batch[:3])
    assert ood_auroc(model, tiny_batch, tiny_batch[:3]) == first
    assert model.training and model[2].weight.grad is None


def test_mistakes_are_named(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()
    with pytest.raises(UnknownNameError, match="Expected a score, but got 'max_logits'"):
        ood_auroc(model, tiny_batch, tiny_batch, scores=["max_logits"])
    for scores in ([], "max_logit"):
        with pytest.raises(InvalidSettingError, match="Expected `scores` to be a list of names"):
            ood_auroc(model, tiny_batch, tiny_batch, scores=scores)
    with pytest.raises(InvalidSettingError, match="Expected `batch_size`"):
        ood_auroc(model, tiny_batch, tiny_batch, batch_size=0)
    with pytest.raises(InvalidBatchError, match="Expected `negative` to hold one number a sample"):
        auroc(torch.ones(2), torch.tensor([1.0, torch.nan]))
    with pytest.raises(InvalidBatchError, match="Expected `positive` .* with 0 NaN"):
        auroc(torch.ones(0), torch.ones(1))
