import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.annotators import MaskNet, PatchDiscriminator, UNet
from rightreasons.errors import InvalidSettingError


@pytest.mark.parametrize(
    ("size", "depth"), [((28, 28), 3), ((48, 48), 2), ((5, 9), 3), ((64, 1), 1)]
)
def test_masks_have_the_size_of_images(size, depth):
    net = UNet(channels=2, width=4, depth=depth)
    x = torch.rand(2, 2, *size)
    assert net(x).shape == (2, 1, *size)
    assert net.features(x).shape == (2, 4 * 2**depth)


def test_a_mask_depends_on_its_image_alone():
    net = UNet(channels=1, width=8, depth=2)
    x = torch.rand(3, 1, 12, 12)
    torch.testing.assert_close(net(x)[1:2], net(x[1:2]))
    torch.testing.assert_close(net.train()(x), net.eval()(x))
    assert net(x)[0].std() > 0


def test_fine_detail_crosses_over():
    """A logit depends on the pixels next to it the most, and on those far away."""
    torch.manual_seed(0)
    net = UNet(channels=1, width=4, depth=2)
    x = torch.rand(1, 1, 16, 16).requires_grad_()
    (slope,) = torch.autograd.grad(net(x)[0, 0, 5, 9], x)
    near = slope[0, 0, 4:7, 8:11].abs().mean()
    assert near > 1.5 * slope[0, 0, :, :4].abs().mean() > 0  # far away by the lowest resolution


def test_logits_of_either_sign_need_no_bias():
    """With channels of one sign they would all lie on one side of the bias."""
    torch.manual_seed(0)
    net = UNet(channels=1, width=8, depth=2)
    torch.nn.init.ones_(net.last.weight)
    torch.nn.init.zeros_(net.last.bias)
    logits = net(torch.rand(2, 1, 16, 16))
    assert logits.min() < 0 < logits.max()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"channels": 0}, "Expected `channels` to be a whole number from 1"),
        ({"channels": 1, "width": 1}, "Expected `width` to be a whole number from 2"),
        ({"channels": 1, "depth": 0}, "Expected `depth` to be a whole number from 1 to 8"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        UNet(**settings)


def test_five_layers_as_the_paper_has_them():
    layers = [one for one in PatchDiscriminator(channels=3).modules() if isinstance(one, nn.Conv2d)]
    assert [layer.out_channels for layer in layers] == [64, 128, 256, 512, 1]
    assert [layer.stride[0] for layer in layers] == [2, 2, 2, 1, 1]
    assert layers[0].in_channels == 4


@pytest.mark.parametrize(("side", "patches"), [(24, 1), (28, 1), (48, 4), (64, 6)])
def test_it_judges_patches(side, patches):
    judge = PatchDiscriminator(channels=1, width=2)
    judged = judge(torch.rand(2, 1, side, side), torch.rand(2, 1, side, side))
    assert judged.shape == (2, 1, patches, patches)


def test_a_patch_sees_seventy_pixels():
    judge = PatchDiscriminator(channels=1, width=2)
    mask = torch.rand(1, 1, 120, 120).requires_grad_()
    for layer in judge.modules():  # the norm sees all of a map
        if isinstance(layer, nn.InstanceNorm2d):
            layer.forward = lambda x: x
    judged = judge(torch.rand(1, 1, 120, 120), mask)
    (slope,) = torch.autograd.grad(judged[0, 0, 6, 6], mask)
    rows = slope[0, 0].abs().sum(dim=1).nonzero().flatten()
    assert len(rows) == rows[-1] - rows[0] + 1 == 70


def test_small_images_are_refused():
    with pytest.raises(InvalidSettingError, match="Expected images of at least 24 x 24 pixels"):
        PatchDiscriminator(channels=1, width=2)(torch.rand(1, 1, 23, 30), torch.rand(1, 1, 23, 30))


def test_terms_read_the_masks_and_fit_sees_one_class():
    net = MaskNet(UNet(channels=1, width=4, depth=1))
    batch = rr.Batch(x=torch.rand(3, 1, 8, 8), y=torch.zeros(3).long())
    probe = rr.Probe(net, batch, layers=["generator"])
    assert probe.logits.shape == (3, 1)
    assert torch.equal(probe.activations["generator"], net.generator(batch.x))
    assert torch.equal(probe.logits, net.generator(batch.x).mean(dim=(2, 3)))
    assert net.discriminator is None
