import pytest
import torch
from tests.reference import annotators as slow

from rightreasons.annotators.quality import confidence, mask_uncertainty


def test_entropy_is_the_slow_twin():
    soft = torch.rand(3, 1, 4, 5).double()
    soft[0, 0, 0, :2] = torch.tensor([0.0, 1.0])
    twin = [slow.entropy(one[0].tolist()) for one in soft]
    assert mask_uncertainty(soft).tolist() == pytest.approx(twin)
    assert confidence(soft).flatten().tolist() == pytest.approx([1 - value for value in twin])
    assert confidence(soft).shape == (3, 1, 1, 1)


def test_its_ends():
    values = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    assert mask_uncertainty(values).tolist() == pytest.approx([1, 0])
