"""Bounds that do not hold what the model itself gives are refused."""

import pytest
import torch
from torch import nn

from rightreasons.bounds import (
    Curve,
    curve,
    input_gradient_bounds,
    margin_bounds,
    output_bounds,
)
from rightreasons.errors import CertificateError

Y = torch.tensor([0, 1])
FACTOR = 1.0


class Scaled(nn.Module):
    """Multiplies by a number: an attribute, one inside a setting, or a global one."""

    def __init__(self, where="attribute"):
        super().__init__()
        self.linear, self.where, self.k = nn.Linear(3, 2), where, 1.0
        self.settings = {"k": [1.0]}

    def forward(self, x):
        if self.where == "global":
            return self.linear(x) * FACTOR
        return self.linear(x) * (self.k if self.where == "attribute" else self.settings["k"][0])


def every_bound(model, x, width, *, method="ibp", outward=True):
    ends = x - width, x + width
    settings = {"method": method, "outward": outward}
    yield lambda: output_bounds(model, *ends, **settings)
    yield lambda: margin_bounds(model, *ends, Y, **settings)
    yield lambda: input_gradient_bounds(model, *ends, Y, target="loss", **settings)


def test_a_changed_attribute_is_seen():
    x = torch.randn(2, 3)
    for where in ("attribute", "settings"):
        model = Scaled(where)
        output_bounds(model, x, x)
        model.k, model.settings["k"][0] = 3.0, 3.0
        torch.testing.assert_close(output_bounds(model, x, x, outward=False).lower, model(x))


@pytest.mark.parametrize("method", ["ibp", "crown"])
@pytest.mark.parametrize("outward", [True, False])
def test_what_tracing_cannot_see_is_refused(monkeypatch, method, outward):
    model, x = Scaled("global"), torch.randn(2, 3)
    for bound in every_bound(model, x, 0.5, method=method, outward=outward):
        monkeypatch.setitem(globals(), "FACTOR", 1.0)
        bound()
        monkeypatch.setitem(globals(), "FACTOR", 1.01)
        with pytest.raises(CertificateError, match="not those of the layers that tracing found"):
            bound()


def test_a_model_that_draws_is_refused():
    class Draws(nn.Module):
        def forward(self, x):
            return x + torch.rand(3)

    x = torch.randn(2, 3)
    with pytest.raises(CertificateError, match="Its code may draw"):
        output_bounds(Draws(), x - 1, x + 1)


class Steep(nn.Module):
    """Three times its input."""

    def forward(self, x):
        return 3 * x


@curve.register
def _(layer: Steep) -> Curve:
    """A wrong rule: right at 0 only."""
    return Curve(torch.sin, torch.cos)


@pytest.mark.parametrize("method", ["ibp", "crown"])
def test_values_outside_bounds_by_a_wrong_rule_are_refused(method):
    model, x = nn.Sequential(Steep(), nn.Linear(3, 2)), torch.zeros(2, 3)
    words = "Expected bounds that hold the model's {}, but .* corner of the box lie outside"
    names = ("outputs", "margins")
    for bound, name in zip(every_bound(model, x, 0.5, method=method), names, strict=False):
        with pytest.raises(CertificateError, match=words.format(name)):
            bound()


def test_gradients_outside_bounds_by_a_wrong_rule_are_refused():
    model, x = nn.Sequential(Steep(), nn.Linear(3, 2)), torch.zeros(2, 3)
    with pytest.raises(CertificateError, match="model's input gradients, but .* at the centre"):
        input_gradient_bounds(model, x - 0.1, x + 0.1, Y)


class Permuted(nn.Module):
    """Normalises a view that looks like channels last, whose gradient PyTorch mixes up."""

    def __init__(self, *, copies: bool):
        super().__init__()
        self.norm, self.head, self.copies = nn.BatchNorm2d(5), nn.Linear(25, 2), copies
        torch.nn.init.normal_(self.norm.weight)

    def forward(self, x):
        x = x.permute(0, 3, 2, 1)
        return self.head(self.norm(x.contiguous() if self.copies else x).flatten(1))


def test_a_wrong_gradient_by_pytorch_is_refused_with_the_remedy():
    right, x = Permuted(copies=True).eval(), torch.randn(2, 1, 5, 5)
    model = Permuted(copies=False).eval()
    model.load_state_dict(right.state_dict())
    gradients = [
        torch.autograd.grad(net(inputs).sum(), inputs)[0]
        for net in (right, model)
        for inputs in [x.clone().requires_grad_()]
    ]
    if torch.allclose(*gradients):
        pytest.skip("this version of PyTorch gives the right gradient")
    with pytest.raises(CertificateError, match=r"or PyTorch is: .* call `\.contiguous\(\)`"):
        input_gradient_bounds(model, x - 0.1, x + 0.1, Y)
    input_gradient_bounds(right, x - 0.1, x + 0.1, Y)


def test_overflowed_bounds_hold_everything():
    model, x = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)), torch.randn(2, 3)
    for layer in model:
        layer.weight.data.fill_(1e30)
    for bound in every_bound(model, x, 0.5):
        bound()
