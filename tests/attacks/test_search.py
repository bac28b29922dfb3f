import pytest
import torch
from tests.reference import terms
from torch import nn

import rightreasons as rr
from rightreasons.attacks import GradientSize, climb, draw_points, draw_worst_point, worst_value
from rightreasons.types import Interval, Target


@pytest.fixture
def masked(tiny_net, tiny_batch):
    tiny_net.eval()
    return rr.Probe(tiny_net, tiny_batch, needs_gradient="inside").masked


@pytest.fixture
def interval(masked):
    return masked.box(0.3, (0.0, 1.0))


@pytest.fixture
def size(masked):
    return GradientSize(masked.mask, "squared_l2")


def sizes_at(masked, size, points):
    return size(masked.at(points).gradient(Target.LOSS))


def test_the_size_is_that_of_the_masked_gradient_less_its_reference(masked):
    gradient = torch.randn(2, *masked.mask.shape, dtype=torch.float64)
    reference = torch.randn_like(masked.mask)
    sizes = GradientSize(masked.mask, "l1", reference)(gradient.flatten(0, 1))
    expected = (masked.mask * (gradient - reference)).abs().sum(dim=2).flatten()
    torch.testing.assert_close(sizes, expected)


def test_drawn_points_fill_the_box_on_both_sides():
    lower, upper = torch.zeros(1, 2), torch.tensor([[1.0, 0.0]])
    points = draw_points(Interval(lower, upper), 500)
    assert points.shape == (500, 1, 2)
    assert 0 <= float(points.min()) < 0.02
    assert 0.98 < float(points.max()) <= 1
    assert bool((points[..., 1] == 0).all())


@pytest.mark.parametrize("max_rows", [None, 6, 13])
def test_the_worst_of_the_drawn_is_chosen_for_each_sample(masked, interval, size, max_rows):
    masked.max_rows = max_rows
    torch.manual_seed(3)
    worst = draw_worst_point(masked, interval, size, target=Target.LOSS, num_samples=7)
    torch.manual_seed(3)
    points = draw_points(interval, 7)
    every = torch.stack([sizes_at(masked, size, copy) for copy in points])
    torch.testing.assert_close(sizes_at(masked, size, worst), every.amax(dim=0))
    assert not worst.requires_grad


def test_climbing_is_the_slow_twins_climb(tiny_batch):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(32, 6), nn.Softplus(), nn.Linear(6, 3)).double()
    masked = rr.Probe(net, tiny_batch, needs_gradient="inside").masked
    interval, size = masked.box(0.3, (0.0, 1.0)), GradientSize(masked.mask, "squared_l2")
    start = draw_points(interval, 1)[0]
    settings = {"num_steps": 3, "step_size": 0.25}
    best = climb(masked, interval, size, start, target=Target.LOSS, **settings)
    ours = sizes_at(masked, size, best)
    columns = tiny_batch.mask.expand_as(tiny_batch.x).flatten(1).any(dim=0)
    for n in range(len(tiny_batch)):
        full = tiny_batch.x[n].clone()
        full.view(-1)[columns] = start[n]
        sample = (net, tiny_batch.x[n], int(tiny_batch.y[n]), tiny_batch.mask[n])
        _, expected = terms.climb_masked_gradient(*sample, full, 0.3, 3, 0.25)
        assert ours[n].item() == pytest.approx(expected, rel=1e-9)


def test_climbing_never_ends_below_where_it_began(masked, interval, size):
    start = draw_points(interval, 1)[0]
    before = sizes_at(masked, size, start)
    best = climb(masked, interval, size, start, target=Target.LOSS, num_steps=5, step_size=0.25)
    after = sizes_at(masked, size, best)
    assert bool((after >= before).all())
    assert bool((after > before).any())
    lower, upper = interval
    assert bool(((best >= lower) & (best <= upper)).all())


def test_a_gradient_that_cannot_change_leaves_the_start(tiny_batch):
    net = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()
    masked = rr.Probe(net, tiny_batch, needs_gradient="inside").masked
    interval, size = masked.box(0.3), GradientSize(masked.mask, "l2")
    start = draw_points(interval, 1)[0]
    end = climb(masked, interval, size, start, target=Target.LOGIT, num_steps=2, step_size=0.25)
    assert torch.equal(start, end)


def test_finds_the_corner_of_a_linear_net(tiny_batch):
    net = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()
    masked = rr.Probe(net, tiny_batch, needs_gradient="inside").masked
    lower, upper = interval = masked.box(0.2)
    points, values = worst_value(masked, interval, target=Target.LOGIT, largest=False)
    columns = tiny_batch.mask.expand_as(tiny_batch.x).flatten(1).any(dim=0)
    slopes = net[1].weight[tiny_batch.y][:, columns]
    expected = torch.where(slopes > 0, lower, upper)
    torch.testing.assert_close(points, expected)
    torch.testing.assert_close(
        values, masked.at(expected).logits.gather(1, masked.y[:, None])[:, 0]
    )


def test_is_never_worse_than_staying_and_reports_what_it_finds(tiny_net, tiny_batch):
    tiny_net.eval()
    masked = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside").masked
    lower, upper = interval = masked.box(0.4, (0.0, 1.0))
    points, values = worst_value(masked, interval, num_steps=5, num_restarts=2)
    losses = Target.LOSS(masked.at(points).logits, masked.y)
    torch.testing.assert_close(values, losses.detach())
    assert bool((values >= Target.LOSS(masked.at(masked.values).logits, masked.y)).all())
    assert bool(((points >= lower) & (points <= upper)).all())
    assert not points.requires_grad


def test_no_drawn_point_is_much_worse(tiny_net, tiny_batch):
    tiny_net.eval()
    masked = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside").masked
    interval = masked.box(0.4, (0.0, 1.0))
    _, values = worst_value(masked, interval, num_steps=20, num_restarts=3)
    for fraction in torch.rand(100, *masked.values.shape, dtype=torch.float64):
        drawn = Target.LOSS(masked.at(torch.lerp(*interval, fraction)).logits, masked.y)
        assert bool((drawn <= values + 0.01).all())
