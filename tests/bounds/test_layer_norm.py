import pytest
import torch
from torch import nn

from rightreasons.bounds import Box, backward_bounds, forward_bounds, output_bounds
from rightreasons.errors import UnsupportedLayerError

LAYERS = {
    "layer": (lambda: nn.LayerNorm(6), (6,)),
    "layer of rows": (lambda: nn.LayerNorm(4), (3, 4)),
    "layer of planes": (lambda: nn.LayerNorm((3, 4), bias=False), (2, 3, 4)),
    "plain": (lambda: nn.LayerNorm(5, elementwise_affine=False), (5,)),
    "group": (lambda: nn.GroupNorm(2, 4), (4, 3, 2)),
    "group of vectors": (lambda: nn.GroupNorm(2, 6, affine=False), (6,)),
}


def make_layer(name, dtype=torch.float64):
    make, shape = LAYERS[name]
    layer = make().to(dtype)
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer, shape


@pytest.mark.parametrize("name", LAYERS)
def test_at_width_zero_it_is_autograd(name):
    layer, shape = make_layer(name)
    x = torch.randn(3, *shape, dtype=torch.float64, requires_grad=True)
    expected = layer(x)
    box = Box(x.detach(), torch.zeros(3, *shape, dtype=torch.float64))
    output = forward_bounds(layer, box, outward=False)
    torch.testing.assert_close(output.center, expected)
    gradient = torch.randn_like(expected)
    (pulled,) = torch.autograd.grad(expected, x, gradient)
    (found,) = backward_bounds(layer, Box.exact(gradient), (box,), output, outward=False)
    torch.testing.assert_close(found.center, pulled)
    assert float(found.radius.detach().max()) < 1e-12


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("offset", [0.0, 50.0])
def test_samples_stay_inside_even_far_from_zero(name, offset):
    layer, shape = make_layer(name, torch.float32)
    box = Box.between(
        offset + torch.rand(1, *shape), offset + 1 + torch.rand(1, *shape), outward=True
    )
    output = forward_bounds(layer, box, outward=True)
    gradient = torch.randn(1, *shape)
    (pulled,) = backward_bounds(layer, Box.exact(gradient), (box,), output, outward=True)
    low, high = box.ends()
    for _ in range(200):
        x = (low + (high - low) * torch.rand_like(low)).requires_grad_()
        value = layer(x)
        (slope,) = torch.autograd.grad(value, x, gradient)
        for found, bounds in ((value, output), (slope, pulled)):
            lower, upper = bounds.ends(outward=True)
            assert bool((found >= lower).all() and (found <= upper).all())


def test_no_value_exceeds_the_root_of_the_others_count():
    box = Box(torch.zeros(1, 9), torch.full((1, 9), 100.0))
    output = forward_bounds(nn.LayerNorm(9), box, outward=False)
    assert float(output.upper.detach().max()) <= 8**0.5 * (1 + 1e-6)


def test_without_epsilon_it_is_refused():
    with pytest.raises(UnsupportedLayerError, match="LayerNorm: eps must be above 0"):
        output_bounds(nn.LayerNorm(3, eps=0.0), torch.zeros(1, 3), torch.ones(1, 3))
