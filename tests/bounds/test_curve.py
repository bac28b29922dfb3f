import pytest
import torch
from torch import nn

from rightreasons.bounds import Box, backward_bounds, curve, forward_bounds
from rightreasons.bounds.curve import slope_ends
from rightreasons.errors import UnsupportedLayerError

LAYERS = [
    nn.LeakyReLU(0.2),
    nn.LeakyReLU(-0.5),
    nn.Hardtanh(-1, 2),
    nn.ReLU6(),
    nn.ELU(),
    nn.ELU(2.0),
    nn.Softplus(),
    nn.Softplus(3.0, 5.0),
    nn.Softplus(2.0, 3.0),
    nn.Sigmoid(),
    nn.Tanh(),
    nn.SiLU(),
    nn.GELU(),
    nn.GELU("tanh"),
]
GRID = torch.cat([torch.linspace(-12, 12, 24001), torch.tensor([0.0, -1.0, 2.0, 6.0])]).double()


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_values_and_slopes_are_those_of_autograd(layer):
    x = GRID.clone().requires_grad_()
    output = layer(x)
    (slope,) = torch.autograd.grad(output.sum(), x)
    activation = curve(layer)
    torch.testing.assert_close(activation.function(GRID), output.detach())
    torch.testing.assert_close(activation.slope(GRID), slope)


def functions_and_turns(layer):
    known = curve(layer)
    return (known.function, known.turns), (known.slope, known.slope_turns)


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_between_turns_everything_is_monotone(layer):
    for function, turns in functions_and_turns(layer):
        points = torch.tensor([-torch.inf, *sorted({argument for argument, _ in turns}), torch.inf])
        values = function(GRID.sort().values)
        for low, high in zip(points[:-1], points[1:], strict=True):
            inside = (GRID.sort().values > low) & (GRID.sort().values < high)
            steps = values[inside].diff()
            assert bool((steps >= -1e-12).all() or (steps <= 1e-12).all())


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_turns_hold_the_extreme_values(layer):
    for function, turns in functions_and_turns(layer):
        for place, value in turns:
            near = function(torch.tensor([place - 1e-7, place, place + 1e-7]).double())
            assert float((near - value).abs().min()) < 1e-6
    if curve(layer).increasing:
        assert bool((curve(layer).function(GRID.sort().values).diff() >= 0).all())


def test_slopes_have_finite_gradients_far_out():
    for layer in LAYERS:
        x = torch.tensor([-1e4, -50.0, 0.0, 50.0, 1e4], requires_grad=True)
        (gradient,) = torch.autograd.grad(curve(layer).slope(x).sum() + 0 * x.sum(), x)
        assert bool(torch.isfinite(gradient).all())


def test_unknown_activations_are_refused():
    with pytest.raises(UnsupportedLayerError, match="known curve, but got Softmax"):
        curve(nn.Softmax())


def wide_box():
    return Box(4 * torch.randn(1, 400).double(), 3 * torch.rand(1, 400).double())


def scanned(function, box, num_points=2001):
    """The smallest and largest value on a fine grid through every interval."""
    shares = torch.linspace(-1, 1, num_points).double()[:, None]
    values = function(box.center + shares * box.radius)
    return values.amin(dim=0), values.amax(dim=0)


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_values_reach_both_ends_and_not_beyond(layer):
    box = wide_box()
    found = forward_bounds(layer, box, outward=False)
    low, high = scanned(layer, box)
    torch.testing.assert_close(found.lower[0], low, atol=5e-3, rtol=0)
    torch.testing.assert_close(found.upper[0], high, atol=5e-3, rtol=0)
    assert bool((found.lower[0] <= low + 1e-12).all() and (found.upper[0] >= high - 1e-12).all())


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_slopes_reach_both_ends_and_not_beyond(layer):
    box = wide_box()
    lower, upper = slope_ends(curve(layer), box, outward=False)
    low, high = scanned(curve(layer).slope, box)
    assert bool((lower[0] <= low + 1e-12).all() and (upper[0] >= high - 1e-12).all())
    # A slope may jump between two points of the grid, in a few of the intervals.
    close = (lower[0] - low).abs() + (upper[0] - high).abs() < 2e-2
    assert float(close.double().mean()) > 0.98


@pytest.mark.parametrize("layer", LAYERS, ids=str)
@pytest.mark.parametrize("outward", [True, False])
def test_gradients_are_products_with_slopes(layer, outward):
    box = wide_box()
    gradient = Box(torch.randn(1, 400).double(), torch.rand(1, 400).double())
    output = forward_bounds(layer, box, outward=outward)
    (found,) = backward_bounds(layer, gradient, (box,), output, outward=outward)
    slopes = slope_ends(curve(layer), box, outward=False)
    corners = torch.stack([g * s for g in gradient.ends() for s in slopes])
    torch.testing.assert_close(found.lower, corners.amin(dim=0), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.upper, corners.amax(dim=0), rtol=1e-9, atol=1e-9)
    if outward:
        assert bool((found.lower <= corners.amin(dim=0)).all())


def test_points_have_points():
    box = Box(torch.randn(1, 20).double(), torch.zeros(1, 20).double())
    gradient = Box.exact(torch.randn(1, 20).double())
    for layer in LAYERS:
        output = forward_bounds(layer, box, outward=False)
        (pulled,) = backward_bounds(layer, gradient, (box,), output, outward=False)
        assert float(output.radius.max()) == 0 and float(pulled.radius.max()) == 0


def test_all_curves_are_tested():
    known = {kind for kind in curve.registry if kind.__module__.startswith("torch.nn")}
    assert known == {type(layer) for layer in LAYERS}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layer", [nn.GELU("tanh"), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.Sigmoid()])
def test_slopes_hold_where_the_curve_is_nearly_straight(layer, dtype):
    """There PyTorch's slope is a rounded difference times a large number."""
    x = torch.linspace(-40, 40, 200_001, dtype=dtype).requires_grad_()
    (slope,) = torch.autograd.grad(layer(x).sum(), x)
    low, high = slope_ends(curve(layer), Box.exact(x.detach()), outward=True)
    assert bool(((low <= slope) & (slope <= high)).all())
