import pytest
import torch
from tests.reference import bounds as slow
from torch import nn

from rightreasons.bounds import linear_map


@pytest.mark.parametrize("bias", [True, False])
def test_forward_and_backward_agree_with_the_layer(bias):
    layer = nn.Linear(4, 3, bias=bias).double()
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    gradient = torch.randn(5, 3, dtype=torch.float64)
    view = linear_map(layer)
    torch.testing.assert_close(view.apply(x, bias=True), layer(x))
    (pulled,) = torch.autograd.grad(layer(x), x, gradient)
    torch.testing.assert_close(view.transposed(gradient, [(4,)])[0], pulled)
    assert (view.offset(1) is None) is (not bias)
    assert view.num_terms([(4,)]) == 4


def test_absolute_products_take_magnitudes():
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.data = torch.tensor([[1.0, -2.0]])
    view = linear_map(layer)
    assert view.apply(torch.ones(1, 2), absolute=True).item() == 3
    assert view.transposed(torch.ones(1, 1), [(2,)], absolute=True)[0].tolist() == [[1, 2]]


def test_the_box_is_that_of_single_intervals(small_net, small_box):
    from rightreasons.bounds import forward_bounds

    layer = small_net[0]
    box = forward_bounds(layer, small_box, outward=False)
    for sample in range(3):
        expected = slow.linear(
            layer.weight.tolist(), layer.bias.tolist(), slow.intervals(small_box, sample)
        )
        torch.testing.assert_close(
            torch.tensor(slow.intervals(box, sample)), torch.tensor(expected)
        )
