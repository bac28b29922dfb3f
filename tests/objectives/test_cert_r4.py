import pytest
import torch

import rightreasons as rr
from rightreasons.bounds import input_gradient_bounds
from rightreasons.objectives import CertR4


@pytest.mark.parametrize("form", ["gradient", "change"])
@pytest.mark.parametrize("target", ["loss", "logit"])
def test_is_the_norm_of_the_largest_magnitude_within_bounds(tiny_net, tiny_batch, form, target):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    ours = CertR4(epsilon=0.1, target=target, form=form)(probe)
    reach = 0.1 * tiny_batch.mask
    lower, upper = input_gradient_bounds(
        tiny_net,
        tiny_batch.x - reach,
        tiny_batch.x + reach,
        tiny_batch.y,
        target=target,
        outward=False,
    )
    nominal = probe.gradient(target) if form == "change" else 0.0
    largest = torch.maximum((lower - nominal).abs(), (upper - nominal).abs())
    expected = (tiny_batch.mask * largest).square().flatten(1).sum(dim=1)
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-12)


def test_grows_with_epsilon(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    sizes = [CertR4(epsilon=epsilon)(probe) for epsilon in (0.01, 0.1, 0.5)]
    assert bool((sizes[0] < sizes[1]).all())
    assert bool((sizes[1] < sizes[2]).all())
