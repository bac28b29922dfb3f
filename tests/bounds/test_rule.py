import pytest
import torch
from torch import nn

from rightreasons.bounds import (
    Box,
    Curve,
    backward_bounds,
    curve,
    forward_bounds,
    input_gradient_bounds,
    layer_kinds,
    linear_map,
    output_bounds,
)
from rightreasons.bounds.combination import Elementwise
from rightreasons.bounds.rule import is_curved, ruled_kind
from rightreasons.errors import UnsupportedLayerError


class Doubled(nn.Module):
    """A layer of a user's own, affine and unknown."""

    def forward(self, x):
        return torch.cumsum(x, dim=1)


class Cubed(nn.Module):
    def forward(self, x):
        return torch.pow(x, 3)


@forward_bounds.register
def _(layer: Cubed, *boxes: Box, outward: bool) -> Box:
    lower, upper = boxes[0].ends(outward=outward)
    return Box.between(lower**3, upper**3, outward=outward)


@backward_bounds.register
def _(layer: Cubed, gradient, inputs, output, *, outward):
    raise NotImplementedError


def test_a_rule_of_ones_own_is_found():
    lower, upper = torch.tensor([[-2.0]]), torch.tensor([[1.0]])
    bounds = output_bounds(nn.Sequential(nn.Identity(), Cubed()), lower, upper, outward=False)
    assert bounds.lower.item() == -8 and bounds.upper.item() == 1


class Squared(nn.Module):
    def forward(self, x):
        return torch.pow(x, 2)


@pytest.fixture
def own_curve():
    @curve.register
    def _(layer: Squared) -> Curve:
        return Curve(torch.square, lambda x: 2 * x, ((0.0, 0.0),), (), False)

    yield
    unregister(curve, Squared)


class Halved(nn.Module):
    def forward(self, x):
        return torch.ldexp(x, torch.tensor(-1))


@pytest.fixture
def own_map():
    linear_map.register(Halved, lambda layer: Elementwise(0.5))
    yield
    unregister(linear_map, Halved)


def unregister(rule, kind):
    """Python has no way to take a registration back but to exchange the function."""
    rule.register(kind, rule.dispatch(object))


def test_a_curve_of_ones_own_is_enough(own_curve):
    model = nn.Sequential(Squared(), nn.Linear(2, 2)).double()
    x = torch.tensor([[0.1, -2.0]]).double().requires_grad_()
    ends = x.detach() - 0.3, x.detach() + 0.3
    bounds = output_bounds(model[0], *ends, outward=False)
    torch.testing.assert_close(bounds.lower, torch.tensor([[0.0, 1.7**2]]).double())
    (gradient,) = torch.autograd.grad(model(x)[:, 0].sum(), x)
    for method in ("ibp", "crown"):
        bounds = input_gradient_bounds(model, *ends, torch.tensor([0]), method=method)
        assert bool((bounds.lower <= gradient).all() and (gradient <= bounds.upper).all())


def test_an_affine_view_of_ones_own_is_enough(own_map):
    lower, upper = torch.zeros(1, 2), torch.ones(1, 2)
    assert output_bounds(Halved(), lower, upper, outward=False).upper.tolist() == [[0.5, 0.5]]


def test_curves_come_after_rules():
    assert is_curved(nn.Tanh) and is_curved(nn.ReLU6)
    assert not is_curved(nn.ReLU) and not is_curved(nn.Linear)


def test_without_a_rule_a_layer_is_refused_by_name():
    with pytest.raises(UnsupportedLayerError, match="got LSTM"):
        forward_bounds(nn.LSTM(2, 2), Box.exact(torch.zeros(1, 2)), outward=False)
    with pytest.raises(UnsupportedLayerError, match="cumsum"):
        output_bounds(Doubled(), torch.zeros(1, 2), torch.ones(1, 2))


def test_kinds_inherit_rules():
    class Mine(nn.Linear):
        pass

    assert ruled_kind(Mine) is nn.Linear
    assert ruled_kind(nn.ReLU6) is nn.ReLU6
    assert ruled_kind(nn.LSTM) is None


def test_every_kind_of_the_list_is_known():
    asked_for = (
        *("Linear", "Conv1d", "Conv2d", "ConvTranspose2d", "BatchNorm1d", "BatchNorm2d"),
        *("LayerNorm", "GroupNorm", "AvgPool2d", "MaxPool2d", "AdaptiveAvgPool2d", "Multiply"),
        *("ReLU", "LeakyReLU", "Softplus", "Sigmoid", "Tanh", "ELU", "GELU", "SiLU"),
    )
    assert set(asked_for) <= set(layer_kinds())
    assert layer_kinds() == sorted(layer_kinds())
