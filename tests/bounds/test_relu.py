import pytest
import torch
from tests.reference import bounds as slow
from torch import nn

from rightreasons.bounds import Box, backward_bounds, forward_bounds
from rightreasons.bounds.relu import relu_slope_ends


def random_box(requires_grad=False):
    center = torch.randn(3, 40, dtype=torch.float64, requires_grad=requires_grad)
    radius = torch.rand(3, 40, dtype=torch.float64)
    radius[0] = 0
    return Box(center, radius.requires_grad_(requires_grad))


@pytest.mark.parametrize("outward", [True, False])
def test_values_are_those_of_single_intervals(outward):
    box = random_box()
    found = forward_bounds(nn.ReLU(), box, outward=outward)
    for sample in range(3):
        expected = slow.relu(slow.intervals(box, sample))
        torch.testing.assert_close(
            torch.tensor(slow.intervals(found, sample)), torch.tensor(expected)
        )


@pytest.mark.parametrize("outward", [True, False])
@pytest.mark.parametrize("exact", [True, False])
def test_gradients_are_those_of_single_intervals(outward, exact):
    box, gradient = random_box(), random_box()
    gradient = Box.exact(gradient.center) if exact else gradient
    output = forward_bounds(nn.ReLU(), box, outward=outward)
    (found,) = backward_bounds(nn.ReLU(), gradient, (box,), output, outward=outward)
    for sample in range(3):
        slopes = [slow.relu_slope(pair) for pair in slow.intervals(box, sample)]
        pairs = zip(slopes, slow.intervals(gradient, sample), strict=True)
        expected = [slow.multiplied(a, b) for a, b in pairs]
        torch.testing.assert_close(
            torch.tensor(slow.intervals(found, sample)), torch.tensor(expected)
        )


def test_at_zero_the_slope_is_that_of_autograd():
    point = Box(torch.zeros(1, 1), torch.zeros(1, 1))
    assert relu_slope_ends(point, outward=False) == (torch.zeros(1, 1), torch.zeros(1, 1))


def test_both_rules_have_right_gradients():
    def rules(center, radius, g_center, g_radius):
        box = Box(center, radius)
        output = forward_bounds(nn.ReLU(), box, outward=False)
        (pulled,) = backward_bounds(
            nn.ReLU(), Box(g_center, g_radius), (box,), output, outward=False
        )
        return (*output, *pulled)

    parts = [
        torch.randn(2, 9, dtype=torch.float64) if even else torch.rand(2, 9, dtype=torch.float64)
        for even in (True, False, True, False)
    ]
    parts = [part.requires_grad_() for part in parts]
    assert torch.autograd.gradcheck(rules, parts)
