import math

import torch
from tests.reference import terms

import rightreasons as rr
from rightreasons.objectives import IGA


def test_equals_its_slow_twin(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    torch.manual_seed(5)
    ours = IGA(epsilon=0.3, num_steps=0)(probe)
    torch.manual_seed(5)
    points = tiny_batch.x + 0.3 * (2 * torch.rand_like(tiny_batch.x) - 1)
    expected = torch.tensor(terms.iga(tiny_net, tiny_batch, points)).double()
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-8)
    assert bool((ours < math.log(1 + math.exp(2))).all())


def test_climbing_moves_the_gradient_away_from_the_image(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient=True)
    ends = []
    for num_steps in (0, 5):
        torch.manual_seed(0)
        ends.append(IGA(epsilon=0.3, num_steps=num_steps)(probe).mean())
    assert ends[1] > ends[0]
