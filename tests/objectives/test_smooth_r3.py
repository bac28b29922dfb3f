import pytest
import torch
from tests.reference import terms

import rightreasons as rr
from rightreasons.objectives import R3, SmoothR3


def test_equals_its_slow_twin(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    torch.manual_seed(5)
    ours = SmoothR3(num_samples=2, epsilon=0.3)(probe)
    torch.manual_seed(5)
    noise = 0.3 * (2 * torch.rand(2, *tiny_batch.x.shape, dtype=torch.float64) - 1)
    expected = torch.tensor(terms.smooth_r3(tiny_net, tiny_batch, noise)).double()
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("noise", ["uniform", "gaussian"])
def test_without_noise_it_is_r3(tiny_net, tiny_batch, noise):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    smooth = SmoothR3(epsilon=1e-12, noise=noise)(probe)
    torch.testing.assert_close(smooth, R3()(probe), rtol=1e-8, atol=1e-12)


def test_settings_are_checked():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `noise` to be 'uniform' or"):
        SmoothR3(noise="normal")
