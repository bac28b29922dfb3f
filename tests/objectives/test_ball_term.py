import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.objectives import IGA, BallTerm, IGSum


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
    data = rr.datasets.decoy_digits()
    term = height()
    term.prepare(data.train, num_passes=1)
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
