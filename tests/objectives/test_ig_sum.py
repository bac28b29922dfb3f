import pytest
import torch
from tests.reference import terms

import rightreasons as rr
from rightreasons.objectives import IGSum


@pytest.mark.parametrize("norm_weight", [0.0, 0.5])
def test_equals_its_slow_twin(tiny_net, tiny_batch, norm_weight):
    tiny_net.eval()
    batch = tiny_batch[:3]
    probe = rr.Probe(tiny_net, batch, needs_gradient=True)
    torch.manual_seed(5)
    ours = IGSum(epsilon=0.3, num_steps=0, num_segments=2, norm_weight=norm_weight)(probe)
    torch.manual_seed(5)
    points = batch.x + 0.3 * (2 * torch.rand_like(batch.x) - 1)
    values = terms.ig_sum(tiny_net, batch, points, 2, norm_weight)
    expected = torch.tensor([value for _, value, _ in values]).double()
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-8)


def test_settings_are_checked():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `norm_weight` to be a"):
        IGSum(norm_weight=-1.0)
