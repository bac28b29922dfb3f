import pytest
import torch
from tests.reference import terms

import rightreasons as rr
from rightreasons.objectives import WeightDecay


def test_equals_its_slow_twin(tiny_net, tiny_batch):
    losses = WeightDecay()(rr.Probe(tiny_net, tiny_batch))
    assert losses.tolist() == pytest.approx([terms.weight_decay(tiny_net)] * 6)


def test_vectors_can_be_left_out(tiny_net, tiny_batch):
    losses = WeightDecay(include_vectors=False)(rr.Probe(tiny_net, tiny_batch))
    expected = sum(p.square().sum() for p in tiny_net.parameters() if p.ndim > 1)
    torch.testing.assert_close(losses[0], expected)


def test_frozen_parameters_do_not_count(tiny_net, tiny_batch):
    tiny_net.requires_grad_(False)
    assert WeightDecay()(rr.Probe(tiny_net, tiny_batch)).tolist() == [0.0] * 6


def test_half_the_weight_is_what_sgd_calls_weight_decay(tiny_batch):
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(32, 3)).double()
    objective = rr.recipes.erm(weight_decay=0.05)
    by_term = torch.autograd.grad(objective(model, tiny_batch).total, model[1].weight)[0]
    plain = torch.autograd.grad(rr.recipes.erm()(model, tiny_batch).total, model[1].weight)[0]
    torch.testing.assert_close(by_term, plain + 0.1 * model[1].weight)
