"""Fixtures of the tests of bounds: a small net, its twin of lists, and boxes."""

import pytest
import torch
from torch import nn

from rightreasons.bounds import Box


@pytest.fixture(autouse=True, scope="module")
def every_module_on_one_thread(one_thread):
    """All tests of this folder."""


@pytest.fixture
def small_net() -> nn.Module:
    return nn.Sequential(
        nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)
    ).double()


@pytest.fixture
def listed(small_net):
    """The same net as lists of numbers."""
    layers = [layer for layer in small_net if isinstance(layer, nn.Linear)]
    return [(layer.weight.tolist(), layer.bias.tolist()) for layer in layers]


@pytest.fixture
def small_box() -> Box:
    """Three samples, one of them a point."""
    radius = torch.rand(3, 4, dtype=torch.float64) * torch.tensor([[0.0], [0.2], [1.0]])
    return Box(torch.randn(3, 4, dtype=torch.float64), radius)
