import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.metrics import CalibrationError


def measured(logits, y, **settings):
    batch = rr.Batch(x=logits, y=y)
    return rr.evaluate(nn.Identity(), batch, [CalibrationError(**settings)])["calibration_error"]


def logits_of(confidences):
    """Two classes; the first is predicted with these confidences."""
    odds = [math.log(p / (1 - p)) for p in confidences]
    return torch.tensor([[value, 0.0] for value in odds], dtype=torch.float64)


def test_a_bin_has_the_gap_of_its_means():
    confidences = [0.9, 0.8, 0.6, 0.6]
    y = torch.tensor([0, 1, 0, 0])
    # bins of a half: all four in (0.5, 1]: accuracy 0.75, confidence 0.725
    assert measured(logits_of(confidences), y, num_bins=2) == pytest.approx(0.025)
    # bins of a quarter: (0.5, 0.75] is 0.4 off, (0.75, 1] 0.35
    assert measured(logits_of(confidences), y, num_bins=4) == pytest.approx((0.8 + 0.7) / 4)


def test_a_bin_has_its_upper_end():
    """A confidence of exactly a half, right, and one above it, wrong, are in two bins."""
    logits = torch.tensor([[0.0, 0.0], [math.log(3), 0.0]], dtype=torch.float64)
    y = torch.tensor([0, 1])
    assert measured(logits, y, num_bins=2) == pytest.approx((0.5 + 0.75) / 2)
    assert measured(logits, y, num_bins=1) == pytest.approx((0.75 - 0.5) / 2)


def test_is_zero_for_a_model_that_is_as_sure_as_it_may_be():
    y = torch.tensor([0, 0, 0, 1] * 5)
    assert measured(logits_of([0.75] * 20), y) == pytest.approx(0, abs=1e-12)


def test_is_one_for_a_model_that_is_sure_and_wrong():
    logits = torch.tensor([[100.0, -100.0]] * 3)
    assert measured(logits, torch.tensor([1, 1, 1])) == pytest.approx(1)
    assert measured(logits, torch.tensor([0, 0, 0])) == pytest.approx(0)


@pytest.mark.parametrize("num_bins", [1, 2, 7, 15])
def test_equals_its_slow_twin(num_bins):
    logits, y = 2 * torch.randn(100, 3), torch.randint(3, (100,))
    expected = slow.calibration_error(logits, y, num_bins)
    assert measured(logits, y, num_bins=num_bins) == pytest.approx(expected)


def test_equals_numpy_histograms():
    logits, y = torch.randn(300, 5, dtype=torch.float64), torch.randint(5, (300,))
    confidence, predicted = (part.numpy() for part in logits.softmax(dim=1).max(dim=1))
    edges = np.linspace(0, 1, 11)
    hits, _ = np.histogram(confidence, edges, weights=(predicted == y.numpy()).astype(float))
    sums, _ = np.histogram(confidence, edges, weights=confidence)
    assert measured(logits, y, num_bins=10) == pytest.approx(np.abs(hits - sums).sum() / 300)


@given(st.lists(st.floats(-50, 50), min_size=3, max_size=12), st.integers(1, 30))
def test_lies_between_no_binning_and_bins_of_one(numbers, num_bins):
    logits = torch.tensor([[number, 0.0] for number in numbers], dtype=torch.float64)
    y = torch.zeros(len(numbers), dtype=torch.long)
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    gaps = (predicted == y).double() - confidence
    value = measured(logits, y, num_bins=num_bins)
    assert abs(float(gaps.mean())) - 1e-9 <= value <= float(gaps.abs().mean()) + 1e-9


def test_refuses_no_bins():
    with pytest.raises(InvalidSettingError, match="`num_bins` to be a whole number from 1"):
        CalibrationError(num_bins=0)
