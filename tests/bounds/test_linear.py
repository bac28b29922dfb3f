import pytest
import torch
from tests.reference import bounds as slow
from torch import nn

from rightreasons.bounds import Box, linear_map
from rightreasons.bounds.combination import Add, Elementwise
from rightreasons.bounds.linear import map_backward, map_forward
from rightreasons.errors import UnsupportedLayerError


def test_a_layer_without_an_affine_view_is_refused():
    with pytest.raises(UnsupportedLayerError, match="Expected an affine layer, but got LSTM"):
        linear_map(nn.LSTM(2, 2))


def test_a_layer_that_is_an_affine_view_is_its_own():
    layer = Elementwise(2.0)
    assert linear_map(layer) is layer


def test_points_stay_points():
    point = Box.exact(torch.ones(1, 3))
    assert map_forward(Add(), point, point, outward=False).is_exact
    assert all(box.is_exact for box in map_backward(Add(), point, [point, point], outward=False))
    assert not map_forward(Add(), point, point, outward=True).is_exact


def test_a_point_and_a_box_make_a_box():
    point, box = Box.exact(torch.ones(1, 2)), Box(torch.zeros(1, 2), torch.ones(1, 2))
    total = map_forward(Add(-2.0), point, box, outward=False)
    assert torch.equal(total.center, torch.ones(1, 2))
    assert torch.equal(total.radius, 2 * torch.ones(1, 2))


def test_rounding_widens_by_the_magnitude_of_what_is_summed():
    affine = linear_map(nn.Linear(100, 1))
    near, far = (Box(torch.full((1, 100), size), torch.ones(1, 100)) for size in (1.0, 1000.0))
    plain = map_forward(affine, near, outward=False).radius
    wide = [map_forward(affine, box, outward=True).radius for box in (near, far)]
    slack = [(radius - plain).item() for radius in wide]
    assert 0 < slack[0] < 1e-3
    assert slack[1] > 100 * slack[0]


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
