import pytest
import torch

from rightreasons.bounds import Box, backward_bounds, forward_bounds
from rightreasons.bounds.combination import Add, Average, Concatenate, Elementwise, Multiply

FACTOR = torch.tensor([-2.0, 0.5])
LAYERS = {
    "add": (Add(), lambda x, y: x + y, 2),
    "subtract": (Add(-1.5), lambda x, y: x - 1.5 * y, 2),
    "concatenate": (Concatenate(2), lambda x, y: torch.cat([x, y], dim=2), 2),
    "scale": (Elementwise(-3.0), lambda x: -3 * x, 1),
    "shift": (Elementwise(FACTOR, 0.25), lambda x: FACTOR * x + 0.25, 1),
    "shift by tensor": (Elementwise(1.0, FACTOR), lambda x: x + FACTOR, 1),
    "mean": (Average((1,)), lambda x: x.mean(1), 1),
    "mean kept": (Average((2, 1), True), lambda x: x.mean((1, 2), keepdim=True), 1),
    "sum": (Average((2,), False, True), lambda x: x.sum(2), 1),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_layer_does_what_the_call_does_and_back(name):
    layer, call, count = LAYERS[name]
    inputs = [torch.randn(4, 3, 2, requires_grad=True) for _ in range(count)]
    output = call(*inputs)
    torch.testing.assert_close(layer.apply(*inputs, bias=True), output)
    gradient = torch.randn_like(output)
    pulled = torch.autograd.grad(output, inputs, gradient)
    for found, expected in zip(layer.transposed(gradient, [(3, 2)] * count), pulled, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", LAYERS)
def test_absolute_products_bound_all_signs(name):
    layer, _, count = LAYERS[name]
    radii = [torch.rand(4, 3, 2) for _ in range(count)]
    reach = layer.apply(*radii, absolute=True)
    for _ in range(20):
        signs = [radius * torch.randn_like(radius).sign() for radius in radii]
        assert bool((layer.apply(*signs).abs() <= reach + 1e-6).all())


def test_offsets_are_kept_in_double_precision():
    assert Elementwise(1.0, 0.1).offset(2).item() == 0.1
    assert Elementwise(1.0, FACTOR).offset_magnitude(2).tolist() == [2.0, 0.5]


def test_terms_are_counted():
    assert Average((1, 2)).num_terms([(3, 4)]) >= 12
    assert Add().num_terms([(3,), (3,)]) == 2
    assert Concatenate(1).num_terms([(3,), (3,)]) == 0


def test_values_are_products_and_gradients_have_the_product_rule():
    first, second = (
        Box(torch.randn(2, 50, dtype=torch.float64), torch.rand(2, 50, dtype=torch.float64))
        for _ in range(2)
    )
    gradient = Box.exact(torch.ones(2, 50, dtype=torch.float64))
    output = forward_bounds(Multiply(), first, second, outward=False)
    corners = torch.stack([a * b for a in first.ends() for b in second.ends()])
    torch.testing.assert_close(output.lower, corners.amin(dim=0))
    torch.testing.assert_close(output.upper, corners.amax(dim=0))
    at_first, at_second = backward_bounds(
        Multiply(), gradient, (first, second), output, outward=False
    )
    torch.testing.assert_close(at_first.lower, second.lower)
    torch.testing.assert_close(at_second.upper, first.upper)
