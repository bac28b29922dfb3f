import torch
from tests.reference import terms
from torch import nn

import rightreasons as rr
from rightreasons.objectives import CURE


def test_equals_its_slow_twin(tiny_net, tiny_batch):
    tiny_net.eval()
    ours = CURE(epsilon=1.5)(rr.Probe(tiny_net, tiny_batch, needs_gradient=True))
    expected = torch.tensor(terms.cure(tiny_net, tiny_batch, 1.5)).double()
    torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-8)


def test_a_gradient_of_zero_does_not_step(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()
    nn.init.zeros_(model[1].weight)
    loss = CURE(norm="l2").as_objective()(model, tiny_batch)
    loss.backward()
    assert loss.total == 0
    assert torch.equal(model[1].weight.grad, torch.zeros(3, 32).double())
