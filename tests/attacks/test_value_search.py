import torch
from torch import nn

import rightreasons as rr
from rightreasons.attacks import worst_value
from rightreasons.types import Target


def test_finds_the_corner_of_a_linear_net(tiny_batch):
    net = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()
    masked = rr.Probe(net, tiny_batch, needs_gradient="inside").masked
    lower, upper = interval = masked.box(0.2)
    points, values = worst_value(masked, interval, target=Target.LOGIT, largest=False)
    columns = tiny_batch.mask.expand_as(tiny_batch.x).flatten(1).any(dim=0)
    slopes = net[1].weight[tiny_batch.y][:, columns]
    expected = torch.where(slopes > 0, lower, upper)
    torch.testing.assert_close(points, expected)
    torch.testing.assert_close(
        values, masked.at(expected).logits.gather(1, masked.y[:, None])[:, 0]
    )


def test_is_never_worse_than_staying_and_reports_what_it_finds(tiny_net, tiny_batch):
    tiny_net.eval()
    masked = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside").masked
    lower, upper = interval = masked.box(0.4, (0.0, 1.0))
    points, values = worst_value(masked, interval, num_steps=5, num_restarts=2)
    losses = Target.LOSS(masked.at(points).logits, masked.y)
    torch.testing.assert_close(values, losses.detach())
    assert bool((values >= Target.LOSS(masked.at(masked.values).logits, masked.y)).all())
    assert bool(((points >= lower) & (points <= upper)).all())
    assert not points.requires_grad


def test_no_drawn_point_is_much_worse(tiny_net, tiny_batch):
    tiny_net.eval()
    masked = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside").masked
    interval = masked.box(0.4, (0.0, 1.0))
    _, values = worst_value(masked, interval, num_steps=20, num_restarts=3)
    for share in torch.rand(100, *masked.values.shape, dtype=torch.float64):
        drawn = Target.LOSS(masked.at(torch.lerp(*interval, share)).logits, masked.y)
        assert bool((drawn <= values + 0.01).all())
