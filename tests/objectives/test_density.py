import math

import pytest
import torch
from tests.conftest import DifferentiableOnce
from tests.reference import density as slow
from torch import nn

import rightreasons as rr
from rightreasons.objectives import CrossEntropy, Density

FORMS = ("logsumexp", "plain", "stable", "efficient")


def value_and_slopes(form, net, batch, p=2.0):
    torch.manual_seed(3)
    losses = Density(form=form, p=p)(rr.Probe(net, batch, needs_gradient=True))
    return losses, torch.autograd.grad(losses.sum(), list(net.parameters()), allow_unused=True)


@pytest.mark.parametrize("p", [1.0, 2.0, 2.8, math.inf])
def test_equals_its_slow_twin(tiny_net, tiny_batch, p):
    tiny_net.eval()
    losses, _ = value_and_slopes("logsumexp", tiny_net, tiny_batch, p)
    expected = torch.tensor(slow.density(tiny_net, tiny_batch, p), dtype=torch.float64)
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("form", FORMS[1:])
@pytest.mark.parametrize("p", [1.5, 2.0])
def test_all_forms_agree_in_value_and_in_the_gradient_of_weights(tiny_net, tiny_batch, form, p):
    tiny_net.eval()
    losses, slopes = value_and_slopes("logsumexp", tiny_net, tiny_batch, p)
    others, other_slopes = value_and_slopes(form, tiny_net, tiny_batch, p)
    torch.testing.assert_close(others, losses, rtol=1e-10, atol=1e-12)
    for ours, theirs in zip(slopes, other_slopes, strict=True):
        if ours is None or theirs is None:  # the last bias may have no part in one graph
            assert ours is None or ours.abs().max() < 1e-12
            continue
        torch.testing.assert_close(theirs, ours, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shift", [200.0, -200.0, 1e4, -1e4])
def test_only_the_plain_form_over_and_underflows(shift):
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 5))
    with torch.no_grad():
        net[2].bias += shift
    batch = rr.Batch(x=torch.rand(6, 4), y=torch.arange(6) % 5)
    for form in FORMS:
        losses, slopes = value_and_slopes(form, net, batch)
        finite = [losses, *(slope for slope in slopes if slope is not None)]
        assert all(bool(part.isfinite().all()) for part in finite) == (form != "plain")
    with torch.no_grad():
        net[2].bias -= shift
    plain, exact = (value_and_slopes(form, net, batch)[0] for form in ("plain", "logsumexp"))
    torch.testing.assert_close(plain, exact)


def kind(numbers):
    if bool(numbers.isnan().any()):
        return "no number"
    return "zero" if bool((numbers == 0).all()) else "some"


@pytest.mark.parametrize(
    ("level", "value", "slope"),
    [
        (86.0, "some", "some"),
        (88.0, "zero", "zero"),
        (90.0, "no number", "no number"),
        (-86.0, "some", "some"),
        (-96.0, "some", "no number"),
        (-103.0, "zero", "zero"),
        (-106.0, "no number", "no number"),
    ],
)
def test_where_the_plain_form_vanishes_and_where_it_is_no_number(level, value, slope):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 5))
    with torch.no_grad():
        net[2].weight *= 0.3
        net[2].bias.fill_(level)
    batch = rr.Batch(x=torch.rand(6, 4), y=torch.arange(6) % 5)
    assert (net(batch.x) - level).abs().max() < 0.5
    losses, slopes = value_and_slopes("plain", net, batch)
    assert (kind(losses), kind(slopes[2])) == (value, slope)  # slopes[2]: the last weights
    exact, slopes = value_and_slopes("logsumexp", net, batch)
    assert (kind(exact), kind(slopes[2])) == ("some", "some")


@pytest.mark.parametrize("form", ["logsumexp", "stable", "efficient"])
def test_stays_finite_with_logits_far_apart(form):
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 5))
    with torch.no_grad():
        net[2].weight *= 1e5
    batch = rr.Batch(x=torch.rand(6, 4), y=torch.arange(6) % 5)
    assert net(batch.x).abs().max() > 1e4
    losses, slopes = value_and_slopes(form, net, batch)
    assert losses.isfinite().all() and losses.min() > 0
    assert all(slope is None or bool(slope.isfinite().all()) for slope in slopes)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, math.inf])
def test_a_flat_model_has_no_slope(tiny_batch, p):
    net = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()
    nn.init.zeros_(net[1].weight)
    for form in FORMS:
        losses, (slope, _) = value_and_slopes(form, net, tiny_batch, p)
        assert torch.equal(losses, torch.zeros(6).double())
        assert torch.equal(slope, torch.zeros(3, 32).double())


def test_needs_no_labels_and_shares_the_gradient_of_the_pass(tiny_net, tiny_batch):
    tiny_net.eval()
    other = rr.Batch(x=tiny_batch.x, y=(tiny_batch.y + 1) % 3)
    losses, _ = value_and_slopes("logsumexp", tiny_net, tiny_batch)
    assert torch.equal(losses, value_and_slopes("logsumexp", tiny_net, other)[0])
    probe = rr.Probe(tiny_net, other, needs_gradient=True)
    gradient = probe.gradient("logsumexp")
    torch.testing.assert_close(Density()(probe), gradient.flatten(1).norm(dim=1))
    assert probe.gradient("logsumexp") is gradient


def test_training_with_it_smooths_the_density(tiny_batch):
    values = []
    for weight in (0.0, 1.0):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 3)).double()
        objective = CrossEntropy() + weight * Density()
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        for _ in range(30):
            loss = objective(net, tiny_batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        values.append(loss.parts["density"].item())
    assert values[1] < 0.5 * values[0]


@pytest.mark.parametrize("p", [0.5, -1, math.nan, True, "2"])
def test_what_is_no_norm(p):
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `p` to be a number of at"):
        Density(p=p)


def test_what_is_no_form():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `form` to be 'logsumexp' or"):
        Density(form="exact")


def test_a_model_without_second_derivative_is_refused(tiny_batch):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(32, 3).double()

        def forward(self, x):
            return self.head(DifferentiableOnce.apply(x.flatten(1)))

    with pytest.raises(rr.errors.DoubleBackwardError, match="has no second derivative"):
        Density(form="efficient").as_objective()(Net(), tiny_batch)
