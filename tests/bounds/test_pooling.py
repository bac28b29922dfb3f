import pytest
import torch
from torch import nn

from rightreasons.bounds import (
    METHODS,
    Box,
    backward_bounds,
    forward_bounds,
    linear_map,
    output_bounds,
)
from rightreasons.errors import UnsupportedLayerError

AVERAGES = {
    "1d": (lambda: nn.AvgPool1d(3, 2, 1, count_include_pad=False), (2, 7)),
    "2d": (lambda: nn.AvgPool2d((2, 3), (1, 2), (1, 0), ceil_mode=True), (2, 6, 6)),
    "2d divisor": (lambda: nn.AvgPool2d(2, divisor_override=3), (2, 5, 4)),
    "adaptive 1d": (lambda: nn.AdaptiveAvgPool1d(3), (2, 7)),
    "adaptive 2d": (lambda: nn.AdaptiveAvgPool2d((None, 2)), (2, 4, 5)),
    "adaptive 1": (lambda: nn.AdaptiveAvgPool2d(1), (2, 4, 5)),
    "adaptive larger": (lambda: nn.AdaptiveAvgPool2d(7), (2, 2, 3)),
}


@pytest.mark.parametrize("name", AVERAGES)
def test_the_view_agrees_with_the_layer(name):
    make, shape = AVERAGES[name]
    layer = make()
    view = linear_map(layer)
    x = torch.randn(3, *shape, dtype=torch.float64, requires_grad=True)
    output = layer(x)
    torch.testing.assert_close(view.apply(x, bias=True), output)
    torch.testing.assert_close(view.apply(x, absolute=True), output)
    gradient = torch.randn_like(output)
    (pulled,) = torch.autograd.grad(output, x, gradient)
    torch.testing.assert_close(view.transposed(gradient, [shape])[0], pulled)


def test_a_negative_divisor_turns_the_box_around():
    layer = nn.AvgPool2d(1, divisor_override=-2)
    lower, upper = torch.zeros(1, 1, 1, 1), torch.ones(1, 1, 1, 1)
    net = nn.Sequential(layer, nn.Flatten())
    bounds = output_bounds(net, lower, upper)
    assert bounds.lower <= -0.5 and bounds.upper >= 0
    gradient = Box(torch.zeros(1, 1, 1, 1), torch.ones(1, 1, 1, 1))
    box = Box.between(lower, upper)
    output = forward_bounds(layer, box, outward=False)
    (pulled,) = backward_bounds(layer, gradient, (box,), output, outward=False)
    assert pulled.lower.item() == -0.5 and pulled.upper.item() == 0.5


def test_the_way_back_has_a_gradient():
    view = linear_map(nn.AvgPool2d(2))
    gradient = torch.randn(1, 1, 2, 2, requires_grad=True)
    view.transposed(gradient, [(1, 4, 4)])[0].sum().backward()
    torch.testing.assert_close(gradient.grad, torch.ones(1, 1, 2, 2))


def test_terms_are_counted_in_both_directions():
    assert linear_map(nn.AvgPool2d(3)).num_terms([(1, 6, 6)]) >= 9
    assert linear_map(nn.AdaptiveAvgPool2d(1)).num_terms([(1, 6, 6)]) >= 36
    assert linear_map(nn.AdaptiveAvgPool2d(7)).num_terms([(1, 1, 1)]) >= 49


MAXIMA = {
    "1d": (nn.MaxPool1d(3, 2, 1), (2, 8)),
    "2d": (nn.MaxPool2d(2), (2, 4, 5)),
    "2d overlapping": (nn.MaxPool2d((3, 2), (2, 1), (1, 0), ceil_mode=True), (2, 6, 4)),
    "2d dilated": (nn.MaxPool2d(2, 1, dilation=2), (2, 5, 5)),
    "single": (nn.MaxPool2d(1, 2), (2, 5, 5)),
}


@pytest.mark.parametrize("name", MAXIMA)
def test_at_width_zero_it_is_autograd(name):
    layer, shape = MAXIMA[name]
    x = torch.randn(3, *shape, dtype=torch.float64, requires_grad=True)
    expected = layer(x)
    box = Box(x.detach(), torch.zeros(3, *shape, dtype=torch.float64))
    output = forward_bounds(layer, box, outward=False)
    assert torch.equal(output.center, expected.detach())
    gradient = torch.randn_like(expected)
    (pulled,) = torch.autograd.grad(expected, x, gradient)
    (found,) = backward_bounds(layer, Box.exact(gradient), (box,), output, outward=False)
    torch.testing.assert_close(found.center, pulled)
    assert float(found.radius.max()) < 1e-15


@pytest.mark.parametrize("name", MAXIMA)
def test_an_element_counts_if_it_may_be_the_largest(name):
    """The slow way: every element of every window against all others."""
    layer, shape = MAXIMA[name]
    box = Box(torch.randn(1, *shape), torch.rand(1, *shape) * 0.7)
    output = forward_bounds(layer, box, outward=False)
    gradient = Box(torch.randn_like(output.center), torch.rand_like(output.center))
    (found,) = backward_bounds(layer, gradient, (box,), output, outward=False)
    empty = torch.zeros(1, *shape).flatten(1)
    low, high = torch.zeros_like(empty), torch.zeros_like(empty)
    lower, upper = (end.flatten() for end in box.ends())
    for window in range(output.center[0].numel()):
        members = []
        for index in range(empty.shape[1]):  # which inputs a window sees
            one = torch.full_like(empty, -9.0)
            one[0, index] = 9.0
            if layer(one.reshape(1, *shape)).flatten()[window] == 9:
                members.append(index)
        g_low, g_high = (float(end.flatten()[window]) for end in gradient.ends())
        for own in members:
            others = [other for other in members if other != own]
            if all(lower[own] > upper[other] for other in others):
                low[0, own] += g_low
                high[0, own] += g_high
            elif all(upper[own] >= lower[other] for other in others):
                low[0, own] += min(g_low, 0)
                high[0, own] += max(g_high, 0)
    torch.testing.assert_close(found.lower.flatten(1), low)
    torch.testing.assert_close(found.upper.flatten(1), high)


def test_ties_are_left_open():
    layer = nn.MaxPool1d(2)
    box = Box(torch.zeros(1, 1, 2), torch.zeros(1, 1, 2))
    output = forward_bounds(layer, box, outward=False)
    gradient = Box.exact(torch.ones(1, 1, 1))
    (found,) = backward_bounds(layer, gradient, (box,), output, outward=False)
    assert found.lower.tolist() == [[[0, 0]]] and found.upper.tolist() == [[[1, 1]]]


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.MaxPool2d(2, 2, 1, 2, ceil_mode=True), (1, 1, 2)), (nn.MaxPool1d(2, 2, 1, 2), (1, 1))],
)
@pytest.mark.parametrize("method", METHODS)
def test_a_window_of_padding_only_is_refused(layer, shape, method):
    x = torch.zeros(1, *shape)
    assert torch.isinf(layer(x)).all()
    with pytest.raises(UnsupportedLayerError, match="where a window holds padding only"):
        output_bounds(nn.Sequential(layer, nn.Flatten()), x, x + 1, method=method)


def test_returned_indices_are_refused():
    with pytest.raises(UnsupportedLayerError, match="`0` .MaxPool1d: gives no tensor"):
        net = nn.Sequential(nn.MaxPool1d(2, return_indices=True))
        output_bounds(net, torch.zeros(1, 1, 4), torch.zeros(1, 1, 4))
