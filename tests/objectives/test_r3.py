import torch
from tests.reference import terms

import rightreasons as rr
from rightreasons.objectives import R3


def test_equals_its_slow_twin(tiny_net, tiny_batch):
    tiny_net.eval()
    losses = R3()(rr.Probe(tiny_net, tiny_batch, needs_gradient=True))
    expected = torch.tensor(terms.r3(tiny_net, tiny_batch), dtype=torch.float64)
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-10)


def test_a_soft_mask_enters_squared(tiny_net, tiny_batch):
    tiny_net.eval()
    soft = tiny_batch.replace(mask=0.5 * tiny_batch.mask)
    full = R3()(rr.Probe(tiny_net, tiny_batch, needs_gradient=True))
    half = R3()(rr.Probe(tiny_net, soft, needs_gradient=True))
    torch.testing.assert_close(half, full / 4)


def test_ross_sums_the_log_probabilities_of_all_classes(tiny_net, tiny_batch):
    tiny_net.eval()
    x = tiny_batch.x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(tiny_net(x).log_softmax(dim=1).sum(), x)
    expected = (tiny_batch.mask * gradient).square().flatten(1).sum(dim=1)
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    torch.testing.assert_close(R3(target="log_probabilities")(probe), expected)
