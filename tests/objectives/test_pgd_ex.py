import pytest
import torch
from torch.nn import functional

import rightreasons as rr
from rightreasons.objectives import IbpEx, PgdEx


def test_lies_between_the_clean_loss_and_the_bound(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    clean = functional.cross_entropy(probe.logits, tiny_batch.y, reduction="none")
    attacked = PgdEx(epsilon=0.3)(probe)
    bound = IbpEx(epsilon=0.3)(probe)
    assert bool((clean <= attacked).all())
    assert bool((clean < attacked).any())
    assert bool((attacked <= bound).all())


def test_samples_without_a_mask_have_the_clean_loss_alone(tiny_net, tiny_batch):
    mask = tiny_batch.mask.clone()
    mask[2] = 0
    probe = rr.Probe(tiny_net, tiny_batch.replace(mask=mask), needs_gradient="inside")
    losses = PgdEx()(probe)
    assert losses[2] == 0
    assert torch.count_nonzero(losses) == 5
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `num_steps`"):
        PgdEx(num_steps=0)
