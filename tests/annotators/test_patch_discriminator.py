import pytest
import torch
from torch import nn

from rightreasons.annotators import PatchDiscriminator
from rightreasons.errors import InvalidSettingError


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
