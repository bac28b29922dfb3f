import torch
from tests.reference import terms
from torch import nn

import rightreasons as rr
from rightreasons.objectives import CosineAlignment


def test_equals_its_slow_twin(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    torch.manual_seed(5)
    ours = CosineAlignment(epsilon=0.5, perturbation="gaussian")(probe)
    torch.manual_seed(5)
    noise = torch.empty(1, *tiny_batch.x.shape, dtype=torch.float64).normal_()
    expected = terms.cosine_alignment(tiny_net, tiny_batch, tiny_batch.x + 0.5 * noise)
    torch.testing.assert_close(ours, torch.tensor(expected).double(), rtol=1e-4, atol=1e-8)


def test_scaling_the_model_changes_nothing(tiny_batch):
    """The paper's proposition 5; l2 alignment has no such property."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    values = []
    for _ in range(2):
        torch.manual_seed(0)
        values.append(
            CosineAlignment(epsilon=0.5)(rr.Probe(model, tiny_batch, needs_gradient=True))
        )
        with torch.no_grad():
            model[3].weight *= 1e-5
    torch.testing.assert_close(values[1], values[0], rtol=1e-8, atol=1e-12)
    assert bool((values[0] > 0).all()) and bool((values[0] < 1).all())


def test_a_gradient_of_zero_counts_as_orthogonal(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()
    nn.init.zeros_(model[1].weight)
    loss = CosineAlignment().as_objective()(model, tiny_batch)
    assert loss.total == 0.5
    loss.backward()
    assert bool(torch.isfinite(model[1].weight.grad).all())
