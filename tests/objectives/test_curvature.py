import pytest
import torch
from tests.reference import terms
from torch import nn

import rightreasons as rr
from rightreasons.objectives import CURE, Hessian


@pytest.fixture
def smooth_net():
    return nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.Softplus(beta=3.0), nn.Flatten(), nn.Linear(12, 3)
    ).double()


def test_hessian_equals_its_slow_twin(smooth_net, tiny_batch):
    batch = tiny_batch[:1]
    torch.manual_seed(5)
    ours = Hessian()(rr.Probe(smooth_net, batch, needs_gradient=True))
    torch.manual_seed(5)
    projections = torch.randn_like(batch.x)
    matrix = terms.hessian_matrix(smooth_net, batch.x[0], int(batch.y[0]))
    expected = (matrix @ projections.flatten()).square().sum()
    torch.testing.assert_close(ours[0], expected, rtol=1e-3, atol=1e-9)


def test_its_mean_over_projections_is_the_frobenius_norm(smooth_net, tiny_batch):
    batch = tiny_batch[:1]
    matrix = terms.hessian_matrix(smooth_net, batch.x[0], int(batch.y[0]))
    probe = rr.Probe(smooth_net, batch, needs_gradient=True)
    estimate = Hessian(num_samples=400)(probe)
    assert estimate.item() == pytest.approx(matrix.square().sum().item(), rel=0.2)


def test_its_gradient_equals_finite_differences(smooth_net, tiny_batch):
    weight = smooth_net[0].weight

    def value():
        torch.manual_seed(1)
        return Hessian().as_objective()(smooth_net, tiny_batch).total

    (slopes,) = torch.autograd.grad(value(), weight)
    direction, ends = torch.randn_like(weight), []
    for step in (1e-6, -1e-6):
        with torch.no_grad():
            weight += step * direction
            ends.append(value().item())
            weight -= step * direction
    slope = float((slopes * direction).sum())
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4)


@pytest.mark.parametrize("frozen", [True, False])
def test_a_net_that_does_not_bend_is_refused(tiny_batch, frozen):
    straight = [nn.Linear(32, 3)], [nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 3)]
    for layers in straight:
        model = nn.Sequential(nn.Flatten(), *layers).double().requires_grad_(not frozen)
        with pytest.raises(rr.errors.InvalidSettingError, match="logit bends, but its Hessian is"):
            Hessian().as_objective()(model, tiny_batch)
        assert Hessian(target="loss").as_objective()(model, tiny_batch).total > 0


def test_a_gradient_of_zero_does_not_step(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()
    nn.init.zeros_(model[1].weight)
    loss = CURE(norm="l2").as_objective()(model, tiny_batch)
    loss.backward()
    assert loss.total == 0
    assert torch.equal(model[1].weight.grad, torch.zeros(3, 32).double())
