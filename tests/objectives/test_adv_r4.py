import pytest
import torch

import rightreasons as rr
from rightreasons.attacks import GradientSize, climb, draw_points
from rightreasons.objectives import AdvR4
from rightreasons.types import Target


def test_is_the_size_where_the_climb_ends(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    masked = probe.masked
    torch.manual_seed(5)
    ours = AdvR4(num_steps=4, epsilon=0.2)(probe)
    torch.manual_seed(5)
    interval, size = masked.box(0.2), GradientSize(masked.mask, "squared_l2")
    start = draw_points(interval, 1)[0]
    end = climb(masked, interval, size, start, target=Target.LOSS, num_steps=4, step_size=0.25)
    torch.testing.assert_close(ours, size(masked.at(end).gradient(Target.LOSS)))
    assert ours.requires_grad


def test_more_steps_can_only_be_worse(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    ends = []
    for num_steps in (1, 4, 16):
        torch.manual_seed(0)
        ends.append(AdvR4(num_steps=num_steps)(probe))
    assert bool((ends[0] <= ends[1]).all())
    assert bool((ends[1] <= ends[2]).all())


def test_settings_are_checked():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `num_steps`"):
        AdvR4(num_steps=0)
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `step_size`"):
        AdvR4(step_size=-1.0)
