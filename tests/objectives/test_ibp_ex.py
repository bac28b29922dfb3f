import pytest
import torch
from torch.nn import functional

import rightreasons as rr
from rightreasons.bounds import output_bounds
from rightreasons.objectives import IbpEx, PgdEx


def test_is_the_loss_of_the_worst_logits(tiny_net, tiny_batch):
    tiny_net.eval()
    ours = IbpEx(epsilon=0.2)(rr.Probe(tiny_net, tiny_batch, needs_gradient="inside"))
    reach = 0.2 * tiny_batch.mask
    x, y = tiny_batch.x, tiny_batch.y
    lower, upper = output_bounds(tiny_net, x - reach, x + reach, outward=False)
    worst = upper.clone()
    for n, label in enumerate(y.tolist()):
        worst[n, label] = lower[n, label]
    torch.testing.assert_close(ours, functional.cross_entropy(worst, y, reduction="none"))


def test_lies_between_the_clean_loss_and_the_bound(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    clean = functional.cross_entropy(probe.logits, tiny_batch.y, reduction="none")
    attacked = PgdEx(epsilon=0.3)(probe)
    bound = IbpEx(epsilon=0.3)(probe)
    assert bool((clean <= attacked).all())
    assert bool((clean < attacked).any())
    assert bool((attacked <= bound).all())


@pytest.mark.parametrize("make", [IbpEx, PgdEx])
def test_samples_without_a_mask_have_the_clean_loss_alone(make, tiny_net, tiny_batch):
    tiny_net.eval()
    mask = tiny_batch.mask.clone()
    mask[2] = 0
    losses = make()(rr.Probe(tiny_net, tiny_batch.replace(mask=mask), needs_gradient="inside"))
    assert losses[2] == 0
    assert bool((losses[[0, 1, 3, 4, 5]] > 0).all())


def test_settings_are_checked():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `num_steps`"):
        PgdEx(num_steps=0)
