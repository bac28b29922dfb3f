import pytest
import torch
from torch import nn

from rightreasons.bounds import Box, forward_bounds
from rightreasons.bounds.crown import (
    affine_view,
    parallel_lines,
    chord,
    is_relu,
    relu_lower_slopes,
)
from rightreasons.bounds.shape import Reshape

GRID = torch.linspace(-1, 1, 201).double()[:, None]


def test_lines_lie_below_and_above_relu():
    center, radius = torch.randn(300).double(), torch.rand(300).double()
    lower, upper = center - radius, center + radius
    points = center + GRID * radius
    for outward in (False, True):
        slope, offset = chord(lower, upper, outward=outward)
        assert bool((slope * points + offset >= torch.relu(points) - 1e-12).all())
        flat = torch.where(slope < 1, relu_lower_slopes(lower, upper), slope)
        assert bool((flat * points <= torch.relu(points) + 1e-12).all())
        torch.testing.assert_close(slope * upper + offset, torch.relu(upper))


@pytest.mark.parametrize("layer", [nn.Tanh(), nn.SiLU(), nn.LeakyReLU(0.1), nn.Softplus()])
@pytest.mark.parametrize("outward", [True, False])
def test_bands_hold_the_curve(layer, outward):
    source = Box(2 * torch.randn(1, 300).double(), torch.rand(1, 300).double() * 2)
    output = forward_bounds(layer, source, outward=outward)
    lines = parallel_lines(layer, source, output, outward=outward)
    points = source.center[0] + GRID * source.radius[0]
    strays = (layer(points) - lines.slope[0] * points - lines.middle[0]).abs()
    assert bool((strays <= lines.reach[0] + 1e-12).all())
    assert bool((lines.reach <= output.radius + 1e-12).all())


def test_kinds_are_told_apart():
    assert is_relu(nn.ReLU()) and not is_relu(nn.ReLU6())
    assert affine_view(nn.Linear(2, 2)) is not None
    assert affine_view(Reshape((2,))) == Reshape((2,))
    assert affine_view(nn.ReLU()) is None and affine_view(nn.MaxPool2d(2)) is None
