import pytest
import torch
from torch import nn

from rightreasons.bounds import curve
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
    shape = curve(layer)
    torch.testing.assert_close(shape.function(GRID), output.detach())
    torch.testing.assert_close(shape.slope(GRID), slope)


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_between_turns_everything_is_monotone(layer):
    shape = curve(layer)
    for function, turns in ((shape.function, shape.turns), (shape.slope, shape.slope_turns)):
        places = torch.tensor([-torch.inf, *sorted({place for place, _ in turns}), torch.inf])
        values = function(GRID.sort().values)
        for low, high in zip(places[:-1], places[1:], strict=True):
            inside = (GRID.sort().values > low) & (GRID.sort().values < high)
            steps = values[inside].diff()
            assert bool((steps >= -1e-12).all() or (steps <= 1e-12).all())


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_turns_hold_the_extreme_values(layer):
    shape = curve(layer)
    for function, turns in ((shape.function, shape.turns), (shape.slope, shape.slope_turns)):
        for place, value in turns:
            near = function(torch.tensor([place - 1e-7, place, place + 1e-7]).double())
            assert float((near - value).abs().min()) < 1e-6
    if shape.increasing:
        assert bool((shape.function(GRID.sort().values).diff() >= 0).all())


def test_slopes_have_finite_gradients_far_out():
    for layer in LAYERS:
        x = torch.tensor([-1e4, -50.0, 0.0, 50.0, 1e4], requires_grad=True)
        (gradient,) = torch.autograd.grad(curve(layer).slope(x).sum() + 0 * x.sum(), x)
        assert bool(torch.isfinite(gradient).all())


def test_unknown_activations_are_refused():
    with pytest.raises(UnsupportedLayerError, match="known curve, but got Softmax"):
        curve(nn.Softmax())
