import pytest
import torch
from tests.reference import terms

import rightreasons as rr
from rightreasons.attacks import draw_points
from rightreasons.objectives import RandR4


@pytest.mark.parametrize("form", ["gradient", "change"])
def test_equals_its_slow_twin(tiny_net, tiny_batch, form):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    torch.manual_seed(5)
    ours = RandR4(num_samples=3, epsilon=0.2, form=form, valid_range=(0.0, 1.0))(probe)
    torch.manual_seed(5)
    points = draw_points(probe.masked.box(0.2, (0.0, 1.0)), 3)
    columns = tiny_batch.mask.expand_as(tiny_batch.x).flatten(1).any(dim=0)
    full = tiny_batch.x.flatten(1).repeat(3, 1, 1)
    full[:, :, columns] = points
    full = full.reshape(3, *tiny_batch.x.shape)
    assert bool(((full != tiny_batch.x) <= (tiny_batch.mask.expand_as(full[0]) > 0)).all())
    expected = terms.r4_over(tiny_net, tiny_batch, full, change=form == "change")
    torch.testing.assert_close(ours, torch.tensor(expected).double(), rtol=1e-4, atol=1e-9)


def test_more_samples_can_only_be_worse(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    torch.manual_seed(0)
    few = RandR4(num_samples=2)(probe)
    torch.manual_seed(0)
    assert bool((RandR4(num_samples=20)(probe) >= few).all())  # the same first two
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `num_samples`"):
        RandR4(num_samples=0)
