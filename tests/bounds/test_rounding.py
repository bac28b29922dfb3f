import pytest
import torch

from rightreasons.bounds.box import precision, underflow_error, sum_error


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
