import pytest
import torch
from torch import nn

from rightreasons.bounds import Box, network_of
from rightreasons.bounds.crown_gradient import gradient_ends
from rightreasons.bounds.functions import target_gradient
from rightreasons.types import Target

Y = torch.tensor([2, 0, 1])


def ends_of(model, box, target, outward=False):
    network = network_of(model, box.center)
    boxes = network.forward(box, outward=outward)
    start = target_gradient(boxes[-1], Y, target, outward=outward)
    gradients = network.backward(boxes, start, outward=outward)
    columns = torch.arange(box.center[0].numel())
    return gradient_ends(network, boxes, gradients, columns, outward=outward), gradients[0]


@pytest.mark.parametrize("target", Target)
@pytest.mark.parametrize("outward", [True, False])
def test_gradients_of_samples_lie_between_the_ends(small_net, small_box, target, outward):
    (lower, upper), _ = ends_of(small_net, small_box, target, outward)
    for _ in range(200):
        x = small_box.center + small_box.radius * (2 * torch.rand(3, 4) - 1)
        x.requires_grad_()
        (gradient,) = torch.autograd.grad(target(small_net(x), Y).sum(), x)
        assert bool((gradient >= lower - 1e-12).all() and (gradient <= upper + 1e-12).all())


def test_at_a_point_they_meet(small_net, small_box):
    (lower, upper), _ = ends_of(small_net, small_box, Target.LOSS)
    torch.testing.assert_close(lower[0], upper[0])


def test_stable_nets_are_bounded_exactly():
    """Without open ReLUs the gradient is linear in the start: smaller than by intervals."""
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Linear(5, 3)).double()
    model[0].bias.data += 50
    box = Box(torch.randn(3, 4).double(), torch.full((3, 4), 0.1).double())
    (lower, upper), intervals = ends_of(model, box, Target.LOSS)
    merged = model[3].weight @ model[2].weight @ model[0].weight
    network = network_of(model, box.center)
    start = target_gradient(network.forward(box)[-1], Y, Target.LOSS)
    torch.testing.assert_close((upper - lower) / 2, start.radius @ merged.abs())
    assert float((upper - lower).detach().sum()) < float(2 * intervals.radius.detach().sum())


def test_layers_without_lines_are_bounded_by_intervals():
    model = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(2, 3))
    box = Box(torch.randn(3, 4), torch.full((3, 4), 0.5))
    (lower, upper), intervals = ends_of(model, box, Target.LOGIT)
    torch.testing.assert_close(lower, intervals.lower)
    torch.testing.assert_close(upper, intervals.upper)
