import math

import pytest
import torch

import rightreasons as rr
from rightreasons.core.norms import check_norm, sample_norm
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives import Density, InputGradient

VALUES = torch.tensor([[1.0, -2.0, 2.0], [0.0, 0.0, 0.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        ("l1", 5.0),
        ("l2", 3.0),
        ("squared_l2", 9.0),
        (1.0, 5.0),
        (2, 3.0),
        (3.0, 17 ** (1 / 3)),
        (math.inf, 2.0),
    ],
)
def test_values_and_gradients_at_zero(norm, expected):
    values = VALUES.clone().requires_grad_()
    norms = sample_norm(values, check_norm(norm))
    assert norms.tolist() == pytest.approx([expected, 0.0])
    norms.sum().backward()
    assert torch.isfinite(values.grad).all()
    assert values.grad[1].abs().sum() == 0


@pytest.mark.parametrize(
    ("size", "p"), [(1e4, 10), (1e-6, 20), (1e-3, 50), (1e30, 3), (1e-40, 1.5)]
)
def test_no_power_over_or_underflows_in_single_precision(size, p):
    values = (size * torch.linspace(-1, 1, 40)).expand(2, -1).clone().requires_grad_()
    norms = sample_norm(values, p)
    entries = values[0].tolist()
    largest = max(abs(entry) for entry in entries)
    expected = largest * sum(abs(entry / largest) ** p for entry in entries) ** (1 / p)
    assert norms.tolist() == pytest.approx([expected] * 2, rel=1e-5)
    (slope,) = torch.autograd.grad(norms.sum(), values)
    by_hand = [math.copysign(abs(entry / expected) ** (p - 1), entry) for entry in entries]
    assert slope[0].tolist() == pytest.approx(by_hand, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("p", [1.5, 3.0, 20.0, 50.0])
def test_first_and_second_derivatives(p):
    values = torch.linspace(0.4, 1.0, 10, dtype=torch.float64).view(2, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: sample_norm(rows, p), values)
    assert torch.autograd.gradgradcheck(lambda rows: sample_norm(rows, p), values)


@pytest.mark.parametrize("p", [20.0, 50.0])
@pytest.mark.parametrize("make", [lambda p: Density(p=p), lambda p: InputGradient(norm=p)])
def test_a_fresh_net_is_penalised_with_any_p(p, make):
    torch.manual_seed(0)
    net = rr.models.mlp(inputs=784, hidden=(64, 64), classes=10)
    batch = rr.Batch(x=torch.rand(4, 1, 28, 28), y=torch.arange(4))
    found = []
    for dtype in (torch.float32, torch.float64):
        losses = make(p)(rr.Probe(net.to(dtype), batch.to(dtype), needs_gradient=True))
        slopes = torch.autograd.grad(losses.sum(), [net.get_parameter("1.weight")])
        found.append((losses.double(), slopes[0].double()))
    (single, slope), (double, exact) = found
    assert double.min() > 0 and exact.norm() > 0
    torch.testing.assert_close(single, double, rtol=1e-4, atol=0)
    assert (slope - exact).norm() < 1e-3 * exact.norm()


@pytest.mark.parametrize("p", [3.0, math.inf])
def test_what_is_not_finite_is_not_hidden_and_no_features_are_zero(p):
    values = torch.tensor([[math.inf, 1.0], [math.nan, 1.0], [3.0, 0.0]])
    assert sample_norm(values, p).tolist() == pytest.approx([math.inf, math.nan, 3], nan_ok=True)
    assert torch.equal(sample_norm(torch.zeros(2, 0), p), torch.zeros(2))


@pytest.mark.parametrize("norm", ["l1", "l2", 1, 2.0, math.inf])
def test_named_norms_and_those_of_1_2_and_infinity_are_torchs_to_the_bit(norm):
    values = torch.randn(50, 3, 7)
    p = {"l1": 1.0, "l2": 2.0}.get(norm, norm)
    ours, theirs = (rows.requires_grad_() for rows in (values.clone(), values.clone()))
    sizes = theirs.flatten(1).abs().sum(dim=1) if norm == "l1" else theirs.flatten(1).norm(p, dim=1)
    norms = sample_norm(ours, norm)
    assert torch.equal(norms, sizes)
    norms.sum().backward()
    sizes.sum().backward()
    assert torch.equal(ours.grad, theirs.grad)


@pytest.mark.parametrize("norm", ["l3", 0.5, math.nan, True])
def test_what_is_no_norm(norm):
    with pytest.raises(InvalidSettingError, match="Expected `norm` to be one of .*, or math.inf"):
        check_norm(norm)
