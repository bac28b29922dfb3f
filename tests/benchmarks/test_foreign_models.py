"""What the table of other libraries' models calls right can also be wrong."""

from pathlib import Path

import pytest
import torch
from torch import nn

import rightreasons as rr

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import foreign_models

    return foreign_models


@pytest.fixture
def sure_net():
    """Cross-entropy is zero in single precision, and its gradients are below 1e-8."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 2))
    with torch.no_grad():
        net[0].weight[0] = torch.tensor([0.0] * 4 + [1.0] * 4 + [0.0] * 8)
        net[0].bias[0] = -2.0
        net[2].weight[:, 0] = torch.tensor([-11.0, 11.0])
    return net


def test_terms_that_do_nothing_are_seen_though_a_net_is_sure(script, sure_net, monkeypatch):
    batch = script.planted_table(script.NUM_TRIED)
    assert nn.functional.cross_entropy(sure_net(batch.x), batch.y) < 1e-6
    for name in ("cure", "score_matching", "at_pgd", "r3"):
        assert script.try_recipe(name, sure_net, batch) == "works"
    silent = 0.0 * rr.objectives.CURE()
    monkeypatch.setattr(script.RECIPES, "create", lambda name: rr.recipes.erm() + silent)
    with pytest.raises(script.Wrong, match=r"at 0.weight is that of cross-entropy alone"):
        script.try_recipe("cure", sure_net, batch)


def test_a_map_of_zeros_is_like_another_one_alone(script):
    maps = torch.rand(2, 1, 4, 4)
    half = maps * torch.tensor([1.0, 0.0]).reshape(2, 1, 1, 1)
    assert script.are_alike(maps, 3 * maps) and script.are_alike(half, half)
    assert not script.are_alike(maps, half) and not script.are_alike(maps, maps.flip(3))
