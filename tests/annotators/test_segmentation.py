import pytest
import torch
from tests.reference import annotators as slow

import rightreasons as rr
from rightreasons.annotators import MaskNet, Segmentation, UNet
from rightreasons.annotators.losses import dice


def test_dice_is_the_slow_twin():
    soft, mask = torch.rand(3, 1, 4, 5).double(), (torch.rand(3, 1, 4, 5) > 0.5).double()
    for smoothing in (0.0, 1.0):
        pairs = zip(soft.tolist(), mask.tolist(), strict=True)
        twin = [slow.dice(p[0], m[0], smoothing) for p, m in pairs]
        assert dice(soft, mask, smoothing=smoothing).tolist() == pytest.approx(twin)
    empty = torch.zeros(1, 1, 4, 5)
    assert dice(empty, empty).item() == 1


def test_the_loss_is_the_slow_twin():
    torch.manual_seed(0)
    net = MaskNet(UNet(channels=1, width=4, depth=1)).double()
    mask = (torch.rand(2, 1, 6, 6) > 0.7).double()
    batch = rr.Batch(x=torch.rand(2, 1, 6, 6).double(), y=torch.zeros(2).long(), mask=mask)
    losses = Segmentation()(rr.Probe(net, batch, layers=["generator"]))
    soft = torch.sigmoid(net.generator(batch.x)).tolist()
    twin = [slow.segmentation(p[0], m[0].tolist(), 1.0) for p, m in zip(soft, mask, strict=True)]
    assert losses.tolist() == pytest.approx(twin)


def test_inside_and_outside_count_alike():
    """Images whose masks are inverted, and a net whose logits are: the same loss."""
    net = MaskNet(UNet(channels=1, width=4, depth=1))
    mask = (torch.rand(2, 1, 6, 6) > 0.7).float()
    batch = rr.Batch(x=torch.rand(2, 1, 6, 6), y=torch.zeros(2).long(), mask=mask)
    first = Segmentation()(rr.Probe(net, batch, layers=["generator"]))
    with torch.no_grad():
        net.generator.last.weight.neg_()
        net.generator.last.bias.neg_()
    other = Segmentation()(rr.Probe(net, batch.replace(mask=1 - mask), layers=["generator"]))
    torch.testing.assert_close(first, other)
