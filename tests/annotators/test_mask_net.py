import torch

import rightreasons as rr
from rightreasons.annotators import MaskNet, UNet


def test_terms_read_the_masks_and_fit_sees_one_class():
    net = MaskNet(UNet(channels=1, width=4, depth=1))
    batch = rr.Batch(x=torch.rand(3, 1, 8, 8), y=torch.zeros(3).long())
    probe = rr.Probe(net, batch, layers=["generator"])
    assert probe.logits.shape == (3, 1)
    assert torch.equal(probe.activations["generator"], net.generator(batch.x))
    assert torch.equal(probe.logits, net.generator(batch.x).mean(dim=(2, 3)))
    assert net.discriminator is None
