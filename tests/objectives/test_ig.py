import math

import pytest
import torch
from tests.reference import terms
from torch import nn

import rightreasons as rr
from rightreasons.datasets import InMemory
from rightreasons.datasets.dataset import Card
from rightreasons.objectives import IGA, BallTerm, IGNorm, IGSum
from rightreasons.objectives.ig import path_attribution


class Height(BallTerm):
    """A criterion whose top is known: the sum of the features, up to a mark."""

    def criterion(self, probe, points, *, create_graph):
        self.graphs.append(create_graph)
        self.last = points.detach()
        return (points * torch.tensor([1.0, -1.0, 0.0])).sum(dim=1) + 0 * probe.logits.sum(dim=1)


@pytest.fixture
def probe():
    batch = rr.Batch(x=torch.tensor([[0.5, 0.5, 0.5], [0.95, 1.5, 0.0]]), y=torch.tensor([0, 1]))
    return rr.Probe(nn.Linear(3, 2), batch, needs_gradient=True)


def height(**settings):
    usual = {"epsilon": 0.1, "num_steps": 4, "step_size": 0.5, "valid_range": None}
    term = Height(**{**usual, **settings})
    term.graphs = []
    return term


def test_the_search_ends_at_the_top_of_the_ball(probe):
    term = height()
    values = term(probe)
    torch.testing.assert_close(term.last[:, :2], torch.tensor([[0.6, 0.4], [1.05, 1.4]]))
    torch.testing.assert_close(values, torch.tensor([0.2, -0.35]))
    assert bool(((term.last - probe.features).abs() <= 0.1 + 1e-6).all())
    assert term.graphs == [True] * 5
    assert not term.last.requires_grad


def test_it_stays_in_the_valid_range_and_lets_others_stay(probe):
    term = height(valid_range=(0.0, 1.0))
    term(probe)
    torch.testing.assert_close(term.last[:, :2], torch.tensor([[0.6, 0.4], [1.0, 1.4]]))
    term = height()
    term.prepare(InMemory(probe.batch, Card(valid_range=(0.0, 1.0))), num_passes=1)
    term(probe)
    assert term.last[1, 0] == 1.0  # the card's range
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `valid_range`"):
        IGA(valid_range=(1.0, 0.0))


def test_more_steps_climb_higher(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient=True)
    values = []
    for num_steps in (0, 6):
        torch.manual_seed(0)
        values.append(IGSum(num_steps=num_steps, num_segments=2, epsilon=0.2)(probe))
    assert bool((values[1] > values[0]).all())


@pytest.mark.parametrize("frozen", [True, False])
def test_a_linear_model_has_nothing_to_climb(tiny_batch, frozen):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 2)).double().requires_grad_(not frozen)
    batch = tiny_batch.replace(y=tiny_batch.y % 2)
    values = IGA()(rr.Probe(model, batch, needs_gradient=True))
    torch.testing.assert_close(
        values, IGA(num_steps=0)(rr.Probe(model, batch, needs_gradient=True))
    )


def slow_ig_sum(norm_weight, which):
    def twin(model, batch, points):
        return [row[which] for row in terms.ig_sum(model, batch, points, 2, norm_weight)]

    return twin


@pytest.mark.parametrize(
    ("make", "twin"),
    [
        (IGA, terms.iga),
        (lambda **ball: IGNorm(num_segments=2, **ball), slow_ig_sum(1.0, 2)),
        (lambda **ball: IGSum(num_segments=2, norm_weight=0.0, **ball), slow_ig_sum(0.0, 1)),
        (lambda **ball: IGSum(num_segments=2, norm_weight=0.5, **ball), slow_ig_sum(0.5, 1)),
    ],
    ids=["iga", "ig_norm", "ig_sum without norm", "ig_sum"],
)
def test_equals_its_slow_twin(make, twin, tiny_net, tiny_batch):
    tiny_net.eval()
    batch = tiny_batch[:3]
    probe = rr.Probe(tiny_net, batch, needs_gradient=True)
    torch.manual_seed(5)
    ours = make(epsilon=0.3, num_steps=0)(probe)
    torch.manual_seed(5)
    points = batch.x + 0.3 * (2 * torch.rand_like(batch.x) - 1)
    expected = torch.tensor(twin(tiny_net, batch, points)).double()
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-8)


def test_iga_has_a_largest_value(tiny_net, tiny_batch):
    losses = IGA()(rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient=True))
    assert bool((losses < math.log(1 + math.exp(2))).all())


def test_climbing_moves_the_gradient_away_from_the_image(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient=True)
    ends = []
    for num_steps in (0, 5):
        torch.manual_seed(0)
        ends.append(IGA(epsilon=0.3, num_steps=num_steps)(probe).mean())
    assert ends[1] > ends[0]


def test_settings_are_checked():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `num_segments`"):
        IGNorm(num_segments=0)


def test_settings_of_ig_sum_are_checked():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `norm_weight` to be a"):
        IGSum(norm_weight=-1.0)


def test_a_path_equals_its_slow_twin_and_adds_up(tiny_net, tiny_batch):
    tiny_net.eval()
    batch = tiny_batch[:2]
    probe = rr.Probe(tiny_net, batch, needs_gradient=True, max_rows=3)
    points = batch.x + 0.2 * torch.randn_like(batch.x)
    parts, rise = path_attribution(probe, points, num_segments=2, create_graph=False)
    for n in range(2):
        expected = terms.integrated_gradients_of_loss(
            tiny_net, batch.x[n], points[n], int(batch.y[n]), 2
        )
        torch.testing.assert_close(parts[n], expected, rtol=1e-4, atol=1e-8)
    fine, _ = path_attribution(probe, points, num_segments=200, create_graph=False)
    torch.testing.assert_close(fine.flatten(1).sum(dim=1), rise, rtol=1e-3, atol=1e-5)


def test_it_reaches_the_points_and_the_weights_if_asked(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient=True)
    points = (tiny_batch.x + 0.1).requires_grad_()
    parts, rise = path_attribution(probe, points, num_segments=1, create_graph=True)
    both = parts.abs().sum() + rise.sum()
    slopes = torch.autograd.grad(both, [points, *tiny_net.parameters()], allow_unused=True)
    assert bool(slopes[0].any()) and bool(slopes[1].any())
    bare = path_attribution(probe, points.detach(), num_segments=1, create_graph=False)
    assert not bare.parts.requires_grad and not bare.rise.requires_grad
    torch.testing.assert_close(bare.parts, parts.detach())
