import re

import pytest
import torch
from tests.reference import bounds as slow
from torch import nn

from rightreasons.bounds import (
    Box,
    gradient_box,
    input_gradient_bounds,
    lowest_margins,
    margin_bounds,
    output_bounds,
    output_box,
)
from rightreasons.bounds.box import (
    check_box,
    check_columns,
    check_labels,
    full_precision,
    precision,
    product,
    product_ends,
    round_outward,
    sum_error,
    underflow_error,
    widen_overflowed,
)
from rightreasons.errors import InvalidBatchError, InvalidSettingError, UnknownNameError


def test_ends_and_centre_belong_together():
    lower, upper = torch.tensor([[0.0, -1.0]]), torch.tensor([[1.0, 3.0]])
    box = Box.between(lower, upper)
    assert torch.equal(box.lower, lower) and torch.equal(box.upper, upper)
    assert torch.equal(box.magnitude, torch.tensor([[1.0, 3.0]]))
    assert torch.equal(box.interval().lower, lower) and torch.equal(box.interval().upper, upper)


def test_outward_ends_hold_the_ends_they_were_made_of():
    lower = torch.randn(1000) * 10.0 ** torch.randint(-8, 8, (1000,))
    upper = lower + torch.rand(1000) * 10.0 ** torch.randint(-12, 4, (1000,))
    box = Box.between(lower, upper, outward=True)
    center, radius = box.center.double(), box.radius.double()
    assert bool((center - radius <= lower.double()).all())
    assert bool((center + radius >= upper.double()).all())
    low, high = box.ends(outward=True)
    assert bool((low.double() <= center - radius).all())
    assert bool((high.double() >= center + radius).all())


def test_a_point_needs_no_radius():
    point = Box.exact(torch.ones(2, 3))
    assert point.is_exact
    assert point.full_radius().shape == (2, 3)
    assert torch.equal(point.lower, point.upper)
    assert point.reshape((2, 3, 1)).center.shape == (2, 3, 1)
    assert not Box(torch.ones(2, 3), torch.zeros(2, 3)).is_exact


def test_reshaping_moves_both_parts():
    box = Box(torch.arange(12.0).reshape(2, 2, 3), torch.ones(2, 2, 3)).flatten()
    assert box.center.shape == box.radius.shape == (2, 6)


def boxes():
    return [
        Box(torch.randn(2, 50, dtype=torch.float64), torch.rand(2, 50, dtype=torch.float64))
        for _ in range(2)
    ]


def test_products_are_those_of_single_intervals():
    first, second = boxes()
    for box in (product(first, second, outward=False), product(second, first, outward=False)):
        for sample in range(2):
            pairs = zip(slow.intervals(first, sample), slow.intervals(second, sample), strict=True)
            expected = [slow.multiplied(a, b) for a, b in pairs]
            torch.testing.assert_close(
                torch.tensor(slow.intervals(box, sample)), torch.tensor(expected)
            )


def test_a_point_times_a_box_is_exact():
    _, box = boxes()
    point = Box.exact(torch.full((2, 50), -2.0, dtype=torch.float64))
    for found in (product(point, box, outward=False), product(box, point, outward=False)):
        torch.testing.assert_close(found.lower, -2 * box.upper)
        torch.testing.assert_close(found.upper, -2 * box.lower)


def test_rounded_ends_are_apart():
    first, second = boxes()
    lower, upper = product_ends(first.ends(), second.ends())
    low, high = round_outward(lower, upper)
    assert bool((low < lower).all() and (high > upper).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_precision_is_the_distance_from_one_to_its_neighbour(dtype):
    one = torch.ones((), dtype=dtype)
    assert one + precision(one) > one
    assert one + precision(one) / 2 == one


def test_the_smallest_is_above_every_underflow_and_below_what_matters():
    x = torch.zeros(1)
    assert 2**-149 * 1e6 < underflow_error(x) < 1e-30


@pytest.mark.parametrize("num_terms", [1, 10, 1000, 20000])
def test_sums_in_any_order_err_by_less(num_terms):
    terms = torch.randn(num_terms)
    exact = terms.double().sum()
    magnitude = terms.double().abs().sum()
    for order in (terms, terms.flip(0), terms.sort().values):
        total = torch.zeros(())
        for part in torch.split(order, 7):
            total = total + part.sum()
        assert abs(total.double() - exact) <= sum_error(num_terms, terms) / 2 * magnitude


def test_samples_in_which_something_overflowed_have_no_bounds():
    ends = torch.zeros(3, 2), torch.ones(3, 2)
    radius = torch.tensor([[1.0], [torch.inf], [torch.nan]])
    lower, upper = widen_overflowed(ends, [Box(torch.zeros(3, 1), radius)])
    assert lower.tolist() == [[0, 0], [-torch.inf] * 2, [-torch.inf] * 2]
    assert upper.tolist() == [[1, 1], [torch.inf] * 2, [torch.inf] * 2]


def test_ends_that_are_no_numbers_are_opened():
    lower, upper = widen_overflowed((torch.tensor([[torch.nan, 0.0]]), torch.ones(1, 2)), [])
    assert lower.tolist() == [[-torch.inf, 0]] and upper.tolist() == [[torch.inf, 1]]


def test_untouched_ends_are_handed_on():
    ends = torch.zeros(1, 2), torch.ones(1, 2)
    assert widen_overflowed(ends, [Box.exact(torch.zeros(1, 2))])[0] is ends[0]


def test_a_net_that_overflows_is_never_certified():
    model = nn.Sequential(
        *(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1), nn.ReLU()),
        nn.Linear(1, 2),
    )
    for layer in model[:6:2]:
        layer.weight.data.fill_(1e30)
    x, y = torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1])
    for method in ("ibp", "crown"):
        outputs = output_bounds(model, x - 1, x + 1, method=method)
        gradients = input_gradient_bounds(model, x - 1, x + 1, y, method=method)
        margins = margin_bounds(model, x - 1, x + 1, y, method=method)
        assert bool(torch.isinf(gradients.lower).all() and torch.isinf(gradients.upper).all())
        assert bool((outputs.upper == torch.inf).all())
        assert margins.scatter(1, y[:, None], -torch.inf).amax().item() == -torch.inf
        _, inside_a_loss = gradient_box(model, Box(x, torch.ones(2, 1)), y, target="loss")
        assert bool(torch.isinf(inside_a_loss.radius).all())


def test_autocast_is_off_inside_and_on_again_outside():
    x, layer = torch.rand(2, 3), nn.Linear(3, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with full_precision(x):
            assert layer(x).dtype == torch.float32
        assert layer(x).dtype == torch.bfloat16
    with full_precision(x):
        assert layer(x).dtype == torch.float32


def test_bounds_are_the_same_under_autocast():
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    x, y = torch.rand(2, 3), torch.tensor([0, 1])
    box = Box(x, torch.full_like(x, 0.1))

    def everything():
        return [
            output_bounds(model, x, x + 0.1).upper,
            output_box(model, box).radius,
            gradient_box(model, box, y, target="loss")[1].center,
            lowest_margins(model, box, y),
        ]

    plain = everything()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = everything()
    for one, other in zip(plain, cast, strict=True):
        assert torch.equal(one, other)


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
