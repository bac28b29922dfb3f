import pytest
import torch
from sklearn.metrics import balanced_accuracy_score
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics import GroupAccuracy


def measured(correct, group, card=None, **settings):
    """Values for samples of which it is known whether the answer is right."""
    correct = torch.as_tensor(correct)
    logits = torch.stack([correct, ~correct], dim=1).float()
    batch = rr.Batch(x=logits, y=torch.zeros(len(logits), dtype=torch.long), group=group)
    values = rr.evaluate(nn.Identity(), InMemory(batch, card), [GroupAccuracy(**settings)])
    return {name.removeprefix("group_accuracy/"): value for name, value in values.items()}


CORRECT = [True, True, True, False, True, False, False, False]
GROUP = torch.tensor([0, 0, 0, 0, 2, 2, -1, -1])


def test_average_and_worst_over_the_groups_that_have_samples():
    values = measured(CORRECT, GROUP)
    assert values["0"] == 0.75
    assert values["2"] == 0.5
    assert values["average"] == 0.625
    assert values["worst"] == 0.5
    assert (values["0/n"], values["2/n"]) == (4, 2)


def test_empty_and_unknown_groups_are_left_out():
    names = {name.split("/")[0] for name in measured(CORRECT, GROUP)}
    assert names == {"0", "2", "average", "worst"}


def test_groups_are_called_by_the_names_of_the_card():
    card = Card(groups=("water", "land", "air"))
    values = measured(CORRECT, GROUP, card)
    assert values["water"] == 0.75
    assert values["air"] == 0.5
    assert values["air/n"] == 2
    assert "land" not in values


def test_the_training_counts_weigh_the_groups():
    card = Card(groups=("a", "b", "c"), train_group_counts=(1, 1000, 3))
    assert measured(CORRECT, GROUP, card)["weighted"] == pytest.approx((0.75 + 3 * 0.5) / 4)


@pytest.mark.parametrize("counts", [(), (5, 5), (0, 7, 0)], ids=["none", "too few", "all zero"])
def test_no_weighted_average_without_counts_of_the_groups(counts):
    card = Card(groups=("a", "b", "c"), train_group_counts=counts)
    assert "weighted" not in measured(CORRECT, GROUP, card)


def test_equals_its_slow_twin():
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
    values = measured(correct, group)
    for name in ("average", "worst", "0", "1", "2", "3"):
        assert values[f"{name}/low"] < values[f"{name}/high"]
        assert values[f"{name}/low"] <= values[name] <= values[f"{name}/high"]
    # the average of four groups is known better than one group is
    widths = {name: values[f"{name}/high"] - values[f"{name}/low"] for name in ("average", "0")}
    assert widths["average"] < 0.7 * widths["0"]


def test_the_interval_of_the_worst_is_that_of_the_minimum():
    """Four groups of the same accuracy: the minimum of the draws lies below each of them."""
    values = measured([True, True, True, False] * 40, torch.arange(4).repeat_interleave(40))
    assert values["worst"] == 0.75
    assert values["worst/high"] < values["0/high"]
    assert values["worst/low"] < values["0/low"]


def test_intervals_depend_on_the_seed_alone():
    correct, group = torch.rand(100) < 0.7, torch.arange(100) % 3
    assert measured(correct, group, seed=3) == measured(correct, group, seed=3)
    assert measured(correct, group, seed=3) != measured(correct, group, seed=4)
    assert measured(correct, group, num_draws=1)["average/low"] <= 1


def test_refuses_samples_without_groups():
    batch = rr.Batch(x=torch.eye(2), y=torch.tensor([0, 1]))
    with pytest.raises(InvalidBatchError, match="Expected data with groups for GroupAccu"):
        rr.evaluate(nn.Identity(), batch, [GroupAccuracy()])


def test_refuses_unknown_groups_only():
    with pytest.raises(InvalidBatchError, match="Expected a sample of a known group, but got none"):
        measured(CORRECT, torch.full((8,), -1))


def test_refuses_no_draws():
    with pytest.raises(InvalidSettingError, match="`num_draws` to be a whole number from 1"):
        GroupAccuracy(num_draws=0)
