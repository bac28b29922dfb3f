import torch
from tests.reference import terms

import rightreasons as rr
from rightreasons.objectives import InputGradient


def test_equals_its_slow_twin(tiny_net, tiny_batch):
    tiny_net.eval()
    losses = InputGradient()(rr.Probe(tiny_net, tiny_batch, needs_gradient=True))
    expected = torch.tensor(terms.input_gradient_norm(tiny_net, tiny_batch), dtype=torch.float64)
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-10)


def test_needs_no_mask(tiny_net, tiny_batch):
    bare = rr.Batch(x=tiny_batch.x, y=tiny_batch.y)
    assert rr.recipes.input_gradient()(tiny_net, bare).parts["input_gradient"] > 0
