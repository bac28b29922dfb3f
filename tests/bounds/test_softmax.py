import pytest
import torch
from tests.reference import bounds as slow

from rightreasons.bounds import Box
from rightreasons.bounds.functions import log_sum_of_others, probability_ends


@pytest.mark.parametrize("num_classes", [2, 3, 7])
def test_probabilities_are_those_of_single_intervals(num_classes):
    box = Box(
        3 * torch.randn(4, num_classes, dtype=torch.float64),
        torch.rand(4, num_classes, dtype=torch.float64),
    )
    low, high = probability_ends(box)
    for sample in range(4):
        expected = slow.softmax(slow.intervals(box, sample))
        found = torch.stack([low[sample], high[sample]], dim=1)
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_large_logits_and_ties_give_no_nan():
    logits = torch.tensor([[1e4, -1e4, 0.0], [5.0, 5.0, 5.0], [1e4, 1e4, -1e4]], requires_grad=True)
    others = log_sum_of_others(logits)
    expected = [
        [torch.logsumexp(row[[j for j in range(3) if j != k]], 0) for k in range(3)]
        for row in logits.detach()
    ]
    torch.testing.assert_close(others, torch.tensor(expected))
    others.sum().backward()
    assert bool(torch.isfinite(logits.grad).all())


def test_outward_ends_hold_what_softmax_computes():
    logits = 20 * torch.randn(200, 10)
    low, high = probability_ends(Box.exact(logits), outward=True)
    shares = torch.softmax(logits, dim=1)
    assert bool((shares >= low).all() and (shares <= high).all())
    assert bool((low >= 0).all() and (high <= 1).all())
