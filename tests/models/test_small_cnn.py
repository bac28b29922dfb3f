import pytest
import torch
from torch import nn

from rightreasons.errors import InvalidSettingError
from rightreasons.models import small_cnn


def test_masktunes_net():
    model = small_cnn()
    kinds = [nn.Conv2d, nn.BatchNorm2d, nn.ReLU]
    stage = [*kinds, *kinds, nn.MaxPool2d]
    head = [nn.Flatten, nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
    assert [type(layer) for layer in model] == [*stage, *stage, *head]
    widths = [layer.out_channels for layer in model if isinstance(layer, nn.Conv2d)]
    assert widths == [16, 16, 32, 32]
    assert (model.fc1.in_features, model.fc1.out_features) == (512, 256)
    assert sum(p.numel() for p in model.parameters()) == 149_202


def test_heat_map_layer_is_the_last_activation_before_the_last_pooling():
    layers = list(dict(small_cnn().named_children()))
    assert layers[layers.index("pool2") - 1] == "act4"


def test_padded_maps_lie_where_the_image_has_them():
    net = small_cnn(size=16, padding=1)
    net.eval()
    x = torch.zeros(1, 3, 16, 16)
    x[..., 12, 4] = 1
    moved = (net[:12](x) - net[:12](torch.zeros_like(x))).abs().sum(dim=1)[0]
    assert moved.shape == (8, 8)
    rows, columns = moved.nonzero(as_tuple=True)
    assert rows.float().mean().item() == pytest.approx(12 / 2, abs=1)
    assert columns.float().mean().item() == pytest.approx(4 / 2, abs=1)
    with pytest.raises(InvalidSettingError, match="`padding`"):
        small_cnn(padding=2)


def test_image_too_small():
    with pytest.raises(InvalidSettingError, match="at least 16 x 16 pixels for small_cnn"):
        small_cnn(size=15)
    assert small_cnn(size=16).eval()(torch.zeros(1, 3, 16, 16)).shape == (1, 2)
