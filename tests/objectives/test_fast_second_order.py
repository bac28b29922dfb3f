from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional

from rightreasons.objectives.fast_second_order import Scope, convolve, fast_second_order

GEOMETRIES = [
    {},
    {"stride": 2, "padding": (1, 2)},
    {"padding": 1, "groups": 4},
    {"stride": (2,), "dilation": 2, "padding": [2], "groups": 2},
    {"padding": "same"},
]


class Calls(nn.Module):
    """ReLUs, poolings and Softplus in all the ways they are called."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.pool, self.head = nn.MaxPool2d(3, stride=2, padding=1), nn.Linear(4, 3)

    def forward(self, x):
        x = self.pool(functional.relu(self.first(x)))
        x = torch.relu(self.second(x)).relu()
        x = functional.max_pool2d(x, 2, ceil_mode=True)
        x = functional.softplus(functional.relu(x, inplace=True) - 0.1, beta=3.0)
        return self.head(nn.Softplus(threshold=50)(x).flatten(1))


def gradients(model, x, fast):
    x = x.clone().requires_grad_()
    with fast_second_order() if fast else nullcontext():
        logits = model(x)
    (slope,) = torch.autograd.grad(logits.exp().sum(), x, create_graph=True)
    loss = slope.square().sum() + logits.square().sum()
    return logits, [slope, *torch.autograd.grad(loss, list(model.parameters()))]


def test_values_and_both_derivatives_are_the_same():
    model, x = Calls().double(), torch.randn(3, 2, 4, 4, dtype=torch.float64)
    ours, ours_slopes = gradients(model, x, True)
    plain, plain_slopes = gradients(model, x, False)
    assert torch.equal(ours, plain)
    for left, right in zip(ours_slopes, plain_slopes, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("fast", [True, False])
def test_no_zeros_go_back_through_the_net(fast):
    x = torch.randn(1, 1, 4, 4, requires_grad=True)
    entered = x * 1.0
    with fast_second_order() if fast else nullcontext():
        y = functional.max_pool2d(functional.relu(entered), 2)
    (slope,) = torch.autograd.grad(y.sum(), entered, torch.ones(()), create_graph=True)
    reached = slope.requires_grad and (
        torch.autograd.grad(slope.sum(), entered, allow_unused=True)[0] is not None
    )
    assert reached != fast


@pytest.mark.parametrize("bends", [False, True])
def test_the_way_back_through_a_pass_is_gone_only_where_something_bends(bends):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 1), nn.MaxPool2d(2))
    x = torch.randn(1, 1, 6, 6, requires_grad=True)
    with fast_second_order():
        first = model[0](x)
        y = model[1:](first)
        value = y.square().sum() if bends else y.sum()
        (slope,) = torch.autograd.grad(value, x, create_graph=True)
    reached = []
    first.register_hook(reached.append)
    torch.autograd.grad(slope.square().sum(), model[0].weight)
    assert any(gradient is not None for gradient in reached) == bends


def test_what_is_no_number_stays_none():
    x = torch.tensor([float("nan"), float("-inf"), float("inf"), -0.0])
    with fast_second_order():
        fast = functional.relu(x)
    assert torch.equal(fast.nan_to_num(7.0, 8.0), functional.relu(x).nan_to_num(7.0, 8.0))
    small = torch.randn(2, 4, 4)  # an image without a batch
    with fast_second_order():
        assert torch.equal(functional.max_pool2d(small, 2), nn.MaxPool2d(2)(small))


def test_third_derivatives_of_softplus_are_the_same():
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    slopes = {}
    for fast in (True, False):
        with fast_second_order() if fast else nullcontext():
            value = functional.softplus(x, beta=2.0)
        slopes[fast] = []
        for _ in range(3):
            (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
            slopes[fast].append(value.detach())
    torch.testing.assert_close(slopes[True], slopes[False], rtol=1e-9, atol=1e-12)


def slopes(convolution, x, weight, bias, geometry):
    """First to third derivatives of a convolution inside a curved function."""
    y = convolution(x, weight, bias, **geometry).tanh()
    (first,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    second = torch.autograd.grad(first.square().sum(), [x, weight, bias], create_graph=True)
    total = sum(one.square().sum() for one in second)
    return [y, first, *second, *torch.autograd.grad(total, [x, weight, bias])]


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_three_derivatives_are_those_of_pytorch(geometry):
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        numbers = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return numbers.requires_grad_()

    inputs = draw(2, 4, 7, 6), draw(4, 4 // geometry.get("groups", 1), 3, 3), draw(4)

    def fast(*given, **settings):
        return convolve(Scope(inputs_alone=False), *given, **settings)

    ours = slopes(fast, *inputs, geometry)
    for left, right in zip(ours, slopes(functional.conv2d, *inputs, geometry), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)


def test_weights_get_a_gradient_only_where_they_are_asked():
    x = torch.rand(1, 2, 4, 4, requires_grad=True)
    weight = torch.rand(3, 2, 3, 3, requires_grad=True)
    scope = Scope()
    y = convolve(scope, x, weight)
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
        y = convolve(Scope(), x, layer.weight, layer.bias)
        assert y.dtype == torch.bfloat16
        assert torch.equal(y, layer(x))
    y.sum().backward()
    assert layer.weight.grad is not None
