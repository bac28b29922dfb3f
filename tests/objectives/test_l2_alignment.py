import torch
from tests.reference import terms

import rightreasons as rr
from rightreasons.objectives import L2Alignment


def test_equals_its_slow_twin(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    torch.manual_seed(5)
    ours = L2Alignment(num_samples=2, epsilon=0.5)(probe)
    torch.manual_seed(5)
    shape = (2, *tiny_batch.x.shape)
    points = tiny_batch.x + torch.empty(shape, dtype=torch.float64).uniform_(-0.5, 0.5)
    expected = torch.tensor(terms.l2_alignment(tiny_net, tiny_batch, points)).double()
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-9)


def test_the_norm_is_a_setting(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient=True)
    settings = {"perturbation": "sign", "epsilon": 0.5}
    squared = L2Alignment(**settings)(probe)
    torch.testing.assert_close(L2Alignment(**settings, norm="l2")(probe) ** 2, squared)
