import pytest
import torch
from torch import nn

from rightreasons.bounds import linear_map

LAYERS = {
    "1d": (lambda: nn.AvgPool1d(3, 2, 1, count_include_pad=False), (2, 7)),
    "2d": (lambda: nn.AvgPool2d((2, 3), (1, 2), (1, 0), ceil_mode=True), (2, 6, 6)),
    "2d divisor": (lambda: nn.AvgPool2d(2, divisor_override=3), (2, 5, 4)),
    "adaptive 1d": (lambda: nn.AdaptiveAvgPool1d(3), (2, 7)),
    "adaptive 2d": (lambda: nn.AdaptiveAvgPool2d((None, 2)), (2, 4, 5)),
    "adaptive 1": (lambda: nn.AdaptiveAvgPool2d(1), (2, 4, 5)),
    "adaptive larger": (lambda: nn.AdaptiveAvgPool2d(7), (2, 2, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_view_agrees_with_the_layer(name):
    make, shape = LAYERS[name]
    layer = make()
    view = linear_map(layer)
    x = torch.randn(3, *shape, dtype=torch.float64, requires_grad=True)
    output = layer(x)
    torch.testing.assert_close(view.apply(x, bias=True), output)
    torch.testing.assert_close(view.apply(x, absolute=True), output)
    gradient = torch.randn_like(output)
    (pulled,) = torch.autograd.grad(output, x, gradient)
    torch.testing.assert_close(view.transposed(gradient, [shape])[0], pulled)


def test_the_way_back_has_a_gradient():
    view = linear_map(nn.AvgPool2d(2))
    gradient = torch.randn(1, 1, 2, 2, requires_grad=True)
    view.transposed(gradient, [(1, 4, 4)])[0].sum().backward()
    torch.testing.assert_close(gradient.grad, torch.ones(1, 1, 2, 2))


def test_terms_are_counted_in_both_directions():
    assert linear_map(nn.AvgPool2d(3)).num_terms([(1, 6, 6)]) >= 9
    assert linear_map(nn.AdaptiveAvgPool2d(1)).num_terms([(1, 6, 6)]) >= 36
    assert linear_map(nn.AdaptiveAvgPool2d(7)).num_terms([(1, 1, 1)]) >= 49
