"""Fixtures of the explainers' tests: nets as at test time, and samples."""

import pytest
import torch
from tests.reference.explainers import ACTIVATIONS, make_net


@pytest.fixture(params=ACTIVATIONS)
def activation(request):
    return request.param


@pytest.fixture(params=["mlp", "cnn", "residual"])
def net(request, activation):
    """A net for inputs (N, 2, 4, 4) and three classes."""
    return make_net(request.param, activation).eval()


@pytest.fixture
def x():
    return torch.rand(3, 2, 4, 4, dtype=torch.float64)


@pytest.fixture
def y():
    return torch.tensor([0, 1, 2])
