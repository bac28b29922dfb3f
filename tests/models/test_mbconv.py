import pytest
import torch
from torch import nn
from torch.nn import functional

from rightreasons.models.efficientnet_lite import MBConv, conv_unit, same_padding


def block(**settings):
    plan = {"inputs": 4, "outputs": 4, "kernel": 3, "stride": 1, "expansion": 2, "size": (7, 6)}
    return MBConv(**{**plan, **settings}, make_activation=nn.ReLU6)


@pytest.mark.parametrize("side", [5, 6, 7, 8])
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_leaves_a_pixel_for_every_stride(side, kernel, stride):
    before, after = same_padding(side, kernel, stride)
    assert after - before in (0, 1)
    assert (side + before + after - kernel) // stride + 1 == -(-side // stride)


def test_the_larger_half_comes_after():
    x = torch.zeros(1, 1, 4, 4)
    x[..., -1] = 1
    unit = conv_unit(1, 1, kernel=3, stride=2, size=(4, 4)).eval()
    nn.init.ones_(unit.conv.weight)
    expected = functional.conv2d(functional.pad(x, (0, 1, 0, 1)), torch.ones(1, 1, 3, 3), stride=2)
    torch.testing.assert_close(unit(x), expected / (1 + unit.norm.eps) ** 0.5)


@pytest.mark.parametrize(("stride", "outputs"), [(1, 4), (1, 5), (2, 4)])
def test_shape(stride, outputs):
    made = block(stride=stride, outputs=outputs)
    expected = (2, outputs, -(-7 // stride), -(-6 // stride))
    assert made(torch.rand(2, 4, 7, 6)).shape == expected
    assert made.keeps_shape == (stride == 1 and outputs == 4)


def test_without_a_residual_a_block_that_keeps_the_shape_is_the_identity():
    made = block()
    nn.init.zeros_(made.project.norm.weight)
    x = torch.randn(2, 4, 7, 6)
    assert torch.equal(made(x), x)


def test_channels_are_filtered_one_by_one_and_the_last_convolution_is_linear():
    made = block(expansion=3)
    assert (made.expand.conv.out_channels, made.depthwise.conv.groups) == (12, 12)
    assert not hasattr(made.project, "act")
    assert block(expansion=1).expand is None
