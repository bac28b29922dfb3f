import re

import pytest
import torch
from torch import nn

from rightreasons.bounds import input_gradient_bounds, output_bounds
from rightreasons.bounds.box import check_box, check_columns, check_labels
from rightreasons.errors import InvalidBatchError, InvalidSettingError, UnknownNameError

X = torch.zeros(2, 3)


@pytest.mark.parametrize(
    ("lower", "upper", "words"),
    [
        ([0.0], X, "Expected `lower` to be a tensor of float32 or float64, but got list"),
        (
            X,
            X.half(),
            "`upper` to be a tensor of float32 or float64, but got torch.float16",
        ),
        (X[0], X, "Expected `lower` of shape (N, *S) with at least one feature axis, but got (3,)"),
        (X, X + torch.nan, "Expected finite `upper`, but got NaN or infinity"),
        (X - torch.inf, X, "Expected finite `lower`"),
        (X, X[:1], "Expected `lower` and `upper` of one shape and type, but got (2, 3)"),
        (X, X.double(), "torch.float32 and (2, 3) of torch.float64"),
        (X + 1, X, "Expected `lower` nowhere above `upper`, but got 6 features"),
    ],
)
def test_ends_that_are_none(lower, upper, words):
    with pytest.raises(InvalidBatchError, match=re.escape(words)):
        check_box(lower, upper, outward=True)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([0, 1], "whole numbers of shape (2,), one class a sample, but got list"),
        (torch.zeros(3, dtype=torch.long), "but got (3,) of torch.int64"),
        (torch.zeros(2), "but got (2,) of torch.float32"),
        (torch.tensor([0, 3]), "Expected `y` from 0 to 2, but got values from 0 to 3"),
        (torch.tensor([-1, 0]), "but got values from -1 to 0"),
    ],
)
def test_labels_that_do_not_fit(y, words):
    with pytest.raises(InvalidBatchError, match=re.escape(words)):
        check_labels(y, X)


def test_logits_that_are_none():
    with pytest.raises(InvalidBatchError, match="logits of shape .N, classes."):
        check_labels(torch.tensor([0]), torch.zeros(1, 2, 2))


@pytest.mark.parametrize("columns", [[0], torch.tensor([3]), torch.tensor([[0]]), X[0]])
def test_columns_that_are_none(columns):
    with pytest.raises(InvalidBatchError, match="Expected `columns` to be a line of whole numbers"):
        check_columns(columns, 3)


def test_what_fits_is_handed_on():
    box = check_box(X, X + 1, outward=False)
    assert torch.equal(box.center, X + 0.5)
    assert check_labels(torch.tensor([0, 2], dtype=torch.int32), X).dtype == torch.int64
    assert check_columns(None, 3) is None
    assert check_columns(torch.tensor([], dtype=torch.long), 3) is not None


def test_settings_that_are_none():
    model, y = nn.Linear(3, 2), torch.tensor([0, 1])
    with pytest.raises(InvalidSettingError, match="Expected `method` to be 'ibp' or 'crown'"):
        output_bounds(model, X, X, method="milp")
    with pytest.raises(InvalidSettingError, match="Expected `outward` to be True or False"):
        output_bounds(model, X, X, outward=1)
    with pytest.raises(UnknownNameError, match="Expected a target, but got 'logits'"):
        input_gradient_bounds(model, X, X, y, target="logits")
