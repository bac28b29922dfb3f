import pytest
import torch
from torch import nn

from rightreasons.errors import InvalidSettingError
from rightreasons.models import derma_net


def test_the_papers_net():
    model = derma_net()
    convolutions = [layer for layer in model if isinstance(layer, nn.Conv2d)]
    windows = [(c.out_channels, c.kernel_size[0], c.stride[0], c.padding[0]) for c in convolutions]
    linear = [layer for layer in model if isinstance(layer, nn.Linear)]
    assert windows == [(32, 3, 1, 1), (32, 4, 2, 1), (64, 4, 1, 1), (64, 4, 2, 1)]
    widths = [(layer.in_features, layer.out_features) for layer in linear]
    assert widths == [(14400, 1024), (1024, 1024), (1024, 2)]
    assert model(torch.zeros(2, 3, 64, 64)).shape == (2, 2)


@pytest.mark.parametrize(("depth", "features"), [(2, 32768), (3, 61504), (4, 14400), (5, 12544)])
def test_each_depth_has_one_convolution_and_one_linear_layer_more(depth, features):
    with torch.device("meta"):
        model = derma_net(depth=depth)
    kinds = [type(layer) for layer in model]
    assert (kinds.count(nn.Conv2d), kinds.count(nn.Linear)) == (depth, depth - 1)
    assert model.fc1.in_features == features


def test_depth_out_of_range():
    with pytest.raises(InvalidSettingError, match="`depth` to be 2 or 3 or 4 or 5, but got 6"):
        derma_net(depth=6)


def test_image_too_small():
    with pytest.raises(InvalidSettingError, match="at least 6 x 6 pixels for derma_net"):
        derma_net(size=5)
    assert derma_net(size=6).fc1.in_features == 64


def test_width_scales_channels_and_hidden_layers():
    net = derma_net(size=28, width=0.5)
    assert [net.conv1.out_channels, net.conv4.out_channels] == [16, 32]
    assert net.fc1.out_features == net.fc2.out_features == 512
    assert net(torch.rand(2, 3, 28, 28)).shape == (2, 2)
    with pytest.raises(InvalidSettingError, match="Expected `width`"):
        derma_net(width=0.0)
