import torch
from tests.reference import terms

import rightreasons as rr
from rightreasons.objectives.ig import path_attribution


def test_equals_its_slow_twin_and_adds_up(tiny_net, tiny_batch):
    tiny_net.eval()
    batch = tiny_batch[:2]
    probe = rr.Probe(tiny_net, batch, needs_gradient=True, max_rows=3)
    points = batch.x + 0.2 * torch.randn_like(batch.x)
    parts, rise = path_attribution(probe, points, num_segments=2, create_graph=False)
    for n in range(2):
        expected = terms.integrated_gradients_of_loss(
            tiny_net, batch.x[n], points[n], int(batch.y[n]), 2
        )
        torch.testing.assert_close(parts[n], expected, rtol=1e-4, atol=1e-8)
    fine, _ = path_attribution(probe, points, num_segments=200, create_graph=False)
    torch.testing.assert_close(fine.flatten(1).sum(dim=1), rise, rtol=1e-3, atol=1e-5)


def test_it_reaches_the_points_and_the_weights_if_asked(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient=True)
    points = (tiny_batch.x + 0.1).requires_grad_()
    parts, rise = path_attribution(probe, points, num_segments=1, create_graph=True)
    both = parts.abs().sum() + rise.sum()
    slopes = torch.autograd.grad(both, [points, *tiny_net.parameters()], allow_unused=True)
    assert bool(slopes[0].any()) and bool(slopes[1].any())
    bare = path_attribution(probe, points.detach(), num_segments=1, create_graph=False)
    assert not bare.parts.requires_grad and not bare.rise.requires_grad
    torch.testing.assert_close(bare.parts, parts.detach())
