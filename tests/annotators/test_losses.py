import pytest
import torch
from tests.reference import annotators as slow

import rightreasons as rr
from rightreasons.annotators import MaskNet, PatchDiscriminator, Pix2Pix, Segmentation, UNet
from rightreasons.annotators.losses import dice, patch_loss
from rightreasons.errors import InvalidSettingError


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


@pytest.fixture
def net():
    torch.manual_seed(0)
    judge = PatchDiscriminator(channels=1, width=2)
    return MaskNet(UNet(channels=1, width=4, depth=1), judge).double()


@pytest.fixture
def batch():
    mask = (torch.rand(2, 1, 32, 32) > 0.7).double()
    return rr.Batch(x=torch.rand(2, 1, 32, 32).double(), y=torch.zeros(2).long(), mask=mask)


def twins(net, batch, l1_weight):
    soft = torch.sigmoid(net.generator(batch.x))
    judged = [net.discriminator(batch.x, one) for one in (soft, batch.mask)]
    parts = [part.detach()[:, 0].tolist() for part in (soft, batch.mask, *judged)]
    return [slow.pix2pix(*one, l1_weight) for one in zip(*parts, strict=True)]


def test_the_loss_is_both_sides_of_the_slow_twin(net, batch):
    losses = Pix2Pix(l1_weight=7.0)(rr.Probe(net, batch, layers=["generator"]))
    assert losses.tolist() == pytest.approx([sum(sides) for sides in twins(net, batch, 7.0)])


def test_each_side_moves_its_own_weights(net, batch):
    """Gradients equal those of the two losses taken apart."""
    total = Pix2Pix(l1_weight=7.0)(rr.Probe(net, batch, layers=["generator"])).mean()
    ours = torch.autograd.grad(total, list(net.parameters()))
    soft = torch.sigmoid(net.generator(batch.x))
    judge = net.discriminator
    makes = patch_loss(judge(batch.x, soft), drawn=True).mean()
    makes = makes + 7 * (soft - batch.mask).abs().mean()
    real, made = judge(batch.x, batch.mask), judge(batch.x, soft.detach())
    tells = (patch_loss(real, drawn=True) + patch_loss(made, drawn=False)).mean() / 2
    theirs = [
        *torch.autograd.grad(makes, list(net.generator.parameters())),
        *torch.autograd.grad(tells, list(judge.parameters())),
    ]
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_a_discriminator_is_needed(batch):
    net = MaskNet(UNet(channels=1, width=4, depth=1)).double()
    with pytest.raises(InvalidSettingError, match="Expected a MaskNet with a discriminator"):
        Pix2Pix()(rr.Probe(net, batch, layers=["generator"]))
    with pytest.raises(InvalidSettingError, match="Expected `l1_weight` to be a finite number"):
        Pix2Pix(l1_weight=0)
