import pytest
import torch
from torch import nn
from torch.nn import functional

from rightreasons.objectives.fast_second_order import Scope, convolved

WAYS = [
    {},
    {"stride": 2, "padding": (1, 2)},
    {"padding": 1, "groups": 4},
    {"stride": (2,), "dilation": 2, "padding": [2], "groups": 2},
    {"padding": "same"},
]


def slopes(convolution, x, weight, bias, way):
    """First to third derivatives of a convolution inside a curved function."""
    y = convolution(x, weight, bias, **way).tanh()
    (first,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    second = torch.autograd.grad(first.square().sum(), [x, weight, bias], create_graph=True)
    total = sum(one.square().sum() for one in second)
    return [y, first, *second, *torch.autograd.grad(total, [x, weight, bias])]


@pytest.mark.parametrize("way", WAYS)
def test_three_derivatives_are_those_of_pytorch(way):
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape):
        numbers = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return numbers.requires_grad_()

    inputs = drawn(2, 4, 7, 6), drawn(4, 4 // way.get("groups", 1), 3, 3), drawn(4)

    def straight(*given, **settings):
        return convolved(Scope(inputs_alone=False), *given, **settings)

    ours = slopes(straight, *inputs, way)
    for left, right in zip(ours, slopes(functional.conv2d, *inputs, way), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)


def test_weights_get_a_gradient_only_where_they_are_asked():
    x = torch.rand(1, 2, 4, 4, requires_grad=True)
    weight = torch.rand(3, 2, 3, 3, requires_grad=True)
    scope = Scope()
    y = convolved(scope, x, weight)
    (of_x,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    alone = torch.autograd.grad(y.sum(), weight, retain_graph=True, allow_unused=True)
    assert alone == (None,)
    scope.inputs_alone = False
    torch.testing.assert_close(
        torch.autograd.grad(y.sum() + of_x.square().sum(), weight),
        torch.autograd.grad(expected(x, weight), weight),
    )


def expected(x, weight):
    y = functional.conv2d(x, weight)
    (of_x,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    return y.sum() + of_x.square().sum()


def test_lower_precision_is_left_to_pytorch():
    layer, x = nn.Conv2d(2, 3, 3), torch.rand(1, 2, 5, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = convolved(Scope(), x, layer.weight, layer.bias)
        assert y.dtype == torch.bfloat16
        assert torch.equal(y, layer(x))
    y.sum().backward()
    assert layer.weight.grad is not None
