import pytest
import torch
from tests.reference import terms

import rightreasons as rr
from rightreasons.objectives import IGNorm


def test_equals_its_slow_twin(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    torch.manual_seed(5)
    ours = IGNorm(epsilon=0.3, num_steps=0, num_segments=2)(probe)
    torch.manual_seed(5)
    points = tiny_batch.x + 0.3 * (2 * torch.rand_like(tiny_batch.x) - 1)
    values = terms.ig_sum(tiny_net, tiny_batch, points, 2, 1.0)
    expected = torch.tensor([norm for _, _, norm in values]).double()
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-8)


def test_settings_are_checked():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `num_segments`"):
        IGNorm(num_segments=0)
