import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics import Accuracy, CalibrationError, GroupAccuracy


def accuracy(logits, y):
    return rr.evaluate(nn.Identity(), rr.Batch(x=logits, y=y), [Accuracy()])


def test_counts_right_answers():
    logits = torch.tensor([[2.0, 1.0], [0.0, 1.0], [5.0, -5.0], [0.0, 0.5]])
    values = accuracy(logits, torch.tensor([0, 1, 1, 1]))
    assert values["accuracy"] == 0.75
    assert values["accuracy/n"] == 4


def test_equals_its_slow_twin_and_scikit_learn():
    logits, y = torch.randn(200, 4), torch.randint(4, (200,))
    value = accuracy(logits, y)["accuracy"]
    assert value == slow.accuracy(logits, y)
    assert value == pytest.approx(accuracy_score(y.numpy(), logits.argmax(dim=1).numpy()))


def test_the_interval_holds_the_value_and_shrinks_with_more_samples():
    logits = torch.tensor([[1.0, 0.0]])
    y = torch.tensor([0, 0, 0, 1])
    few = accuracy(logits.expand(40, 2), y.repeat(10))
    many = accuracy(logits.expand(4000, 2), y.repeat(1000))
    for values in (few, many):
        assert values["accuracy/low"] < 0.75 < values["accuracy/high"]
    width = [values["accuracy/high"] - values["accuracy/low"] for values in (few, many)]
    assert 8 < width[0] / width[1] < 12  # a tenth, for a hundred times as many


def group_accuracy(correct, group, card=None, **settings):
    """Values for samples with given right and wrong answers."""
    correct = torch.as_tensor(correct)
    logits = torch.stack([correct, ~correct], dim=1).float()
    batch = rr.Batch(x=logits, y=torch.zeros(len(logits), dtype=torch.long), group=group)
    values = rr.evaluate(nn.Identity(), InMemory(batch, card), [GroupAccuracy(**settings)])
    return {name.removeprefix("group_accuracy/"): value for name, value in values.items()}


CORRECT = [True, True, True, False, True, False, False, False]
GROUP = torch.tensor([0, 0, 0, 0, 2, 2, -1, -1])


def test_average_and_worst_over_the_groups_that_have_samples():
    values = group_accuracy(CORRECT, GROUP)
    assert values["0"] == 0.75
    assert values["2"] == 0.5
    assert values["average"] == 0.625
    assert values["worst"] == 0.5
    assert (values["0/n"], values["2/n"]) == (4, 2)


def test_empty_and_unknown_groups_are_left_out():
    names = {name.split("/")[0] for name in group_accuracy(CORRECT, GROUP)}
    assert names == {"0", "2", "average", "worst"}


def test_groups_are_called_by_the_names_of_the_card():
    card = Card(groups=("water", "land", "air"))
    values = group_accuracy(CORRECT, GROUP, card)
    assert values["water"] == 0.75
    assert values["air"] == 0.5
    assert values["air/n"] == 2
    assert "land" not in values


def test_the_training_counts_weigh_the_groups():
    card = Card(groups=("a", "b", "c"), train_group_counts=(1, 1000, 3))
    assert group_accuracy(CORRECT, GROUP, card)["weighted"] == pytest.approx((0.75 + 3 * 0.5) / 4)


@pytest.mark.parametrize("counts", [(), (5, 5), (0, 7, 0)], ids=["none", "too few", "all zero"])
def test_no_weighted_average_without_counts_of_the_groups(counts):
    card = Card(groups=("a", "b", "c"), train_group_counts=counts)
    assert "weighted" not in group_accuracy(CORRECT, GROUP, card)


def test_group_accuracy_equals_its_slow_twin():
    logits, y = torch.randn(300, 3), torch.randint(3, (300,))
    group = torch.randint(-1, 6, (300,))
    group[group == 4] = 5  # nobody is in group 4
    counts = (10, 0, 30, 5, 100, 7)
    card = Card(classes=("0", "1", "2"), train_group_counts=counts)
    data = InMemory(rr.Batch(x=logits, y=y, group=group), card)
    values = rr.evaluate(nn.Identity(), data, [GroupAccuracy()])
    expected = slow.group_accuracy(logits, y, group, counts)
    for name, value in expected.items():
        assert values[f"group_accuracy/{name}"] == pytest.approx(value)
    ends = {name for name in values if name.endswith(("/low", "/high"))}
    assert {name.removeprefix("group_accuracy/") for name in set(values) - ends} == set(expected)


def test_the_average_over_classes_is_balanced_accuracy():
    logits, y = torch.randn(100, 3), torch.randint(3, (100,))
    values = rr.evaluate(nn.Identity(), rr.Batch(x=logits, y=y, group=y), ["group_accuracy"])
    expected = balanced_accuracy_score(y.numpy(), logits.argmax(dim=1).numpy())
    assert values["group_accuracy/average"] == pytest.approx(expected)


def test_intervals_hold_their_values():
    correct, group = torch.rand(400) < 0.7, torch.arange(400) % 4
    values = group_accuracy(correct, group)
    for name in ("average", "worst", "0", "1", "2", "3"):
        assert values[f"{name}/low"] < values[f"{name}/high"]
        assert values[f"{name}/low"] <= values[name] <= values[f"{name}/high"]
    # the average of four groups is known better than one group is
    widths = {name: values[f"{name}/high"] - values[f"{name}/low"] for name in ("average", "0")}
    assert widths["average"] < 0.7 * widths["0"]


def test_the_interval_of_the_worst_is_that_of_the_minimum():
    """Four groups of the same accuracy: the minimum of the draws lies below each of them."""
    values = group_accuracy([True, True, True, False] * 40, torch.arange(4).repeat_interleave(40))
    assert values["worst"] == 0.75
    assert values["worst/high"] < values["0/high"]
    assert values["worst/low"] < values["0/low"]


def test_intervals_depend_on_the_seed_alone():
    correct, group = torch.rand(100) < 0.7, torch.arange(100) % 3
    assert group_accuracy(correct, group, seed=3) == group_accuracy(correct, group, seed=3)
    assert group_accuracy(correct, group, seed=3) != group_accuracy(correct, group, seed=4)
    assert group_accuracy(correct, group, num_draws=1)["average/low"] <= 1


def test_refuses_samples_without_groups():
    batch = rr.Batch(x=torch.eye(2), y=torch.tensor([0, 1]))
    with pytest.raises(InvalidBatchError, match="Expected data with groups for GroupAccu"):
        rr.evaluate(nn.Identity(), batch, [GroupAccuracy()])


def test_refuses_unknown_groups_only():
    with pytest.raises(InvalidBatchError, match="Expected a sample of a known group, but got none"):
        group_accuracy(CORRECT, torch.full((8,), -1))


def test_refuses_no_draws():
    with pytest.raises(InvalidSettingError, match="`num_draws` to be a whole number from 1"):
        GroupAccuracy(num_draws=0)


def calibration_error(logits, y, **settings):
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
    assert calibration_error(logits_of(confidences), y, num_bins=2) == pytest.approx(0.025)
    # bins of a quarter: (0.5, 0.75] is 0.4 off, (0.75, 1] 0.35
    assert calibration_error(logits_of(confidences), y, num_bins=4) == pytest.approx(
        (0.8 + 0.7) / 4
    )


def test_a_bin_has_its_upper_end():
    """A confidence of exactly a half, right, and one above it, wrong, are in two bins."""
    logits = torch.tensor([[0.0, 0.0], [math.log(3), 0.0]], dtype=torch.float64)
    y = torch.tensor([0, 1])
    assert calibration_error(logits, y, num_bins=2) == pytest.approx((0.5 + 0.75) / 2)
    assert calibration_error(logits, y, num_bins=1) == pytest.approx((0.75 - 0.5) / 2)


def test_is_zero_for_a_model_that_is_as_sure_as_it_may_be():
    y = torch.tensor([0, 0, 0, 1] * 5)
    assert calibration_error(logits_of([0.75] * 20), y) == pytest.approx(0, abs=1e-12)


def test_is_one_for_a_model_that_is_sure_and_wrong():
    logits = torch.tensor([[100.0, -100.0]] * 3)
    assert calibration_error(logits, torch.tensor([1, 1, 1])) == pytest.approx(1)
    assert calibration_error(logits, torch.tensor([0, 0, 0])) == pytest.approx(0)


@pytest.mark.parametrize("num_bins", [1, 2, 7, 15])
def test_calibration_error_equals_its_slow_twin(num_bins):
    logits, y = 2 * torch.randn(100, 3), torch.randint(3, (100,))
    expected = slow.calibration_error(logits, y, num_bins)
    assert calibration_error(logits, y, num_bins=num_bins) == pytest.approx(expected)


def test_equals_numpy_histograms():
    logits, y = torch.randn(300, 5, dtype=torch.float64), torch.randint(5, (300,))
    confidence, predicted = (part.numpy() for part in logits.softmax(dim=1).max(dim=1))
    edges = np.linspace(0, 1, 11)
    hits, _ = np.histogram(confidence, edges, weights=(predicted == y.numpy()).astype(float))
    sums, _ = np.histogram(confidence, edges, weights=confidence)
    assert calibration_error(logits, y, num_bins=10) == pytest.approx(
        np.abs(hits - sums).sum() / 300
    )


@settings(max_examples=40)
@given(st.lists(st.floats(-50, 50), min_size=3, max_size=12), st.integers(1, 30))
def test_lies_between_no_binning_and_bins_of_one(numbers, num_bins):
    logits = torch.tensor([[number, 0.0] for number in numbers], dtype=torch.float64)
    y = torch.zeros(len(numbers), dtype=torch.long)
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    gaps = (predicted == y).double() - confidence
    value = calibration_error(logits, y, num_bins=num_bins)
    assert abs(float(gaps.mean())) - 1e-9 <= value <= float(gaps.abs().mean()) + 1e-9


def test_refuses_no_bins():
    with pytest.raises(InvalidSettingError, match="`num_bins` to be a whole number from 1"):
        CalibrationError(num_bins=0)
