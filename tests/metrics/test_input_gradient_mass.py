import pytest
import torch
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidBatchError, UnknownNameError
from rightreasons.metrics import InputGradientMass

NAME = "input_gradient_mass"


def measured(model, batch, **settings):
    values = rr.evaluate(model, batch, [InputGradientMass(**settings)])
    return {name.removeprefix(NAME).removeprefix("/"): value for name, value in values.items()}


def linear(weight):
    model = nn.Linear(len(weight[0]), len(weight), bias=False)
    model.weight.data = torch.tensor(weight)
    return model


X, Y = torch.rand(4, 3), torch.tensor([0, 1, 0, 1])
FIRST = torch.tensor([[1.0, 0.0, 0.0]]).expand(4, 3)
BATCH = rr.Batch(x=X, y=Y, mask=FIRST)


def test_a_model_that_reads_the_masked_feature_alone_has_one():
    assert measured(linear([[2.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]), BATCH)[""] == 1


def test_a_model_that_ignores_the_masked_feature_has_zero():
    assert measured(linear([[0.0, 2.0, 1.0], [0.0, -1.0, 5.0]]), BATCH)[""] == 0


def test_a_model_that_looks_everywhere_alike_has_the_area():
    values = measured(linear([[1.0, -1.0, 1.0], [2.0, 2.0, -2.0]]), BATCH)
    assert values[""] == pytest.approx(1 / 3)
    assert values["area"] == pytest.approx(1 / 3)
    assert values["n"] == 4


def test_shares_are_averaged_over_samples_not_pooled():
    """The gradients of class 1 are a thousand times as large and count the same."""
    model = linear([[3.0, 1.0, 0.0], [1000.0, 0.0, 3000.0]])
    assert measured(model, BATCH)[""] == pytest.approx((0.75 + 0.25) / 2)


def test_a_soft_mask_counts_in_part():
    half = BATCH.replace(mask=0.5 * FIRST)
    values = measured(linear([[2.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]), half)
    assert values[""] == 0.5
    assert values["area"] == pytest.approx(1 / 6)


def test_samples_with_an_empty_mask_are_left_out():
    mask = FIRST.clone()
    mask[:2] = 0
    values = measured(linear([[2.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]), BATCH.replace(mask=mask))
    bounds = {"low": 1.0, "high": 1.0}
    assert values == {"": 1.0, **bounds, "area": pytest.approx(1 / 3), "n": 2.0}


def test_samples_without_a_gradient_are_left_out():
    values = measured(linear([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), BATCH)
    bounds = {"low": 1.0, "high": 1.0}
    assert values == {"": 1.0, **bounds, "area": pytest.approx(1 / 3), "n": 2.0}


def test_a_model_that_is_flat_everywhere_leans_on_nothing():
    values = measured(linear([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), BATCH)
    assert values == {"": 0.0, "area": pytest.approx(1 / 3), "n": 0.0}


def test_a_gradient_that_is_not_a_number_shows():
    model = linear([[torch.nan, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert str(measured(model, BATCH)[""]) == "nan"


def test_equals_its_slow_twin(tiny_net, tiny_batch):
    tiny_net.eval()
    batch = tiny_batch.replace(
        mask=tiny_batch.mask * torch.linspace(0, 1, 6, dtype=torch.float64).reshape(6, 1, 1, 1)
    )
    expected = slow.input_gradient_mass(tiny_net, batch)
    values = measured(tiny_net, batch)
    assert values.pop("low") < values[""] < values.pop("high")
    assert values == pytest.approx(expected)
    assert expected["n"] == 5


def test_other_targets_can_be_differentiated():
    model = linear([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert measured(model, BATCH, target="logit")[""] == 0.5
    assert measured(model, BATCH, target="margin")[""] == pytest.approx(0.5)
    constant = linear([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])  # x_0 cancels in the margin
    assert measured(constant, BATCH, target="margin")[""] == 0
    with pytest.raises(UnknownNameError, match="Expected a target, but got 'logits'. Did you mean"):
        InputGradientMass(target="logits")


def test_the_logit_of_a_sure_model_still_has_a_gradient():
    model = linear([[2000.0, 1000.0, 0.0], [-2000.0, 0.0, -1000.0]])
    batch = rr.Batch(x=torch.ones(2, 3), y=torch.tensor([0, 0]), mask=FIRST[:2])
    assert measured(model, batch)["n"] == 2
    assert measured(model, batch, target="loss")["n"] == 0


def test_where_nothing_is_masked_there_is_nothing_to_measure():
    empty = BATCH.replace(mask=torch.zeros(4, 3))
    values = measured(linear([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), empty)
    assert values == {"area": 0.0, "n": 0.0}


def test_refuses_data_without_masks():
    with pytest.raises(InvalidBatchError, match="Expected data with masks for InputGradientMass"):
        measured(linear([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), rr.Batch(x=X, y=Y))
