import pytest
import torch
from torch import nn

from rightreasons.models.resnet import BasicBlock, Bottleneck


@pytest.mark.parametrize("block", [BasicBlock, Bottleneck])
@pytest.mark.parametrize("stride", [1, 2])
def test_shape(block, stride):
    made = block(inputs=6, width=4, stride=stride, make_activation=nn.ReLU)
    side = -(-7 // stride)
    assert made(torch.zeros(2, 6, 7, 7)).shape == (2, 4 * block.expansion, side, side)


@pytest.mark.parametrize("block", [BasicBlock, Bottleneck])
def test_without_a_residual_the_block_is_its_shortcut(block):
    made = block(inputs=8, width=8 // block.expansion, stride=1, make_activation=nn.ReLU)
    last = made.bn2 if block is BasicBlock else made.bn3
    nn.init.zeros_(last.weight)
    x = torch.rand(2, 8, 5, 5)
    assert made.downsample is None
    assert torch.equal(made(x), x)


def test_the_shortcut_is_projected_where_shapes_change():
    made = BasicBlock(inputs=3, width=4, stride=2, make_activation=nn.ReLU).eval()
    nn.init.zeros_(made.bn2.weight)
    x = torch.randn(2, 3, 6, 6)
    pixels = torch.einsum("oi,nihw->nohw", made.downsample[0].weight[:, :, 0, 0], x[:, :, ::2, ::2])
    expected = (pixels / (1 + made.downsample[1].eps) ** 0.5).clamp(min=0)
    torch.testing.assert_close(made(x), expected)


def test_bottleneck_strides_in_its_middle():
    made = Bottleneck(inputs=8, width=2, stride=2, make_activation=nn.ReLU)
    assert [made.conv1.stride, made.conv2.stride, made.conv3.stride] == [(1, 1), (2, 2), (1, 1)]
