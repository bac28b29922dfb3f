import pytest
import torch
from torch import nn
from torch.nn import functional

from rightreasons.errors import InvalidSettingError
from rightreasons.explainers import last_spatial_layer, resolution_layers
from rightreasons.models import (
    efficientnet_lite0,
    lenet,
    mlp,
    normalised,
    resnet18,
    resnet50,
    small_cnn,
    vgg11,
)

IMAGE = torch.zeros(2, 3, 32, 32)


def test_blocks_are_named_rather_than_their_last_layer():
    net = resnet18(size=32, width=1 / 16)
    assert resolution_layers(net, IMAGE) == ["layer1", "layer2", "layer3", "layer4"]
    assert last_spatial_layer(net, IMAGE) == "layer4"
    large = resnet18(size=64, width=1 / 16, stem="imagenet")
    names = resolution_layers(large, torch.zeros(1, 3, 64, 64))
    assert names == ["layer1", "layer2", "layer3", "layer4"]  # the stem does not count


@pytest.mark.parametrize("wrapped", [False, True])
def test_layers_beside_the_shortcut_of_a_block_that_shrinks_are_passed_over(wrapped):
    net = resnet50(size=32, width=1 / 16)
    blocks = ["layer1", "layer2", "layer3", "layer4"]
    if wrapped:
        net = normalised(net, mean=0.5, deviation=0.25)
        blocks = [f"net.{name}" for name in blocks]
    assert resolution_layers(net, IMAGE) == blocks


@pytest.mark.parametrize(
    ("size", "last"),
    [(48, ["blocks.10", "head"]), (32, ["blocks.10"]), (96, ["blocks.10", "head"])],
)
def test_blocks_that_shrink_in_their_middle_are_not_read_before_it(size, last):
    net = efficientnet_lite0(classes=2, size=size)
    names = resolution_layers(net, torch.zeros(1, 3, size, size))
    assert names == ["blocks.0", "blocks.2", "blocks.4", *last]


def test_a_block_that_pools_at_its_end_is_read_before():
    class Block(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.conv, self.pool = nn.Conv2d(channels, 4, 3, padding=1), nn.MaxPool2d(2)

        def forward(self, x):
            return self.pool(self.conv(x))

    net = nn.Sequential(Block(3), Block(4), nn.Flatten(), nn.Linear(256, 2))
    assert resolution_layers(net, IMAGE) == ["0.conv", "1.conv"]


def test_a_net_that_pools_at_its_end_is_read_before():
    assert last_spatial_layer(lenet(), IMAGE) == "act4"
    assert resolution_layers(lenet(), IMAGE) == ["act2", "act4"]
    small = small_cnn(classes=2)
    name = last_spatial_layer(small, torch.zeros(1, 3, 28, 28))
    assert isinstance(small.get_submodule(name), nn.ReLU)
    vgg = vgg11(size=32, width=1 / 16)
    assert isinstance(vgg.get_submodule(last_spatial_layer(vgg, IMAGE)), nn.ReLU)


def test_normalised_inputs_are_no_features():
    net = normalised(lenet(), mean=0.5, deviation=0.25)
    assert resolution_layers(net, IMAGE) == ["net.act2", "net.act4"]


def test_activations_in_code_are_seen_through_the_block_around_them():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.pool = nn.Conv2d(3, 3, 3, padding=1), nn.MaxPool2d(2)

        def forward(self, x):
            return functional.relu(self.conv(x) + x)

    net = nn.Sequential(Block(), Block(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    assert last_spatial_layer(net, IMAGE) == "1"


def test_the_model_and_its_mode_are_left_alone():
    net = small_cnn(classes=2).train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    last_spatial_layer(net, torch.rand(4, 3, 28, 28))
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert all(module.training and not module._forward_hooks for module in net.modules())


def test_a_model_without_maps_is_refused_with_a_remedy():
    with pytest.raises(InvalidSettingError, match=r"convolutional features.*Name a layer with"):
        last_spatial_layer(mlp(inputs=3072, classes=2), IMAGE)


@pytest.mark.parametrize(
    ("seed", "channels", "size"),
    [(10, (4, 8), 8), (48, (2, 4), 28), (200, (2, 8), 8), (204, (2, 16), 8), (249, (3, 8), 28)],
)
def test_samples_do_not_change_the_layers(seed, channels, size):
    """Some units are dead for some samples: one image looked as if places were channels."""
    torch.manual_seed(seed)
    first, second = channels
    layers = [nn.Conv2d(1, first, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(first, second, 3, padding=1), nn.ReLU(), nn.Flatten()]
    net = nn.Sequential(*layers, nn.Linear(second * (size // 2) ** 2, 2))
    for unit, every in ((0, 3), (3, 5)):
        if seed % every == 0:
            nn.init.constant_(net[unit].bias, -0.6)
    noise, black, line = torch.rand(size, size), torch.zeros(size, size), torch.eye(size)
    bright = black.index_fill(0, torch.arange(size // 2), 1.0)
    dark = 0.05 * torch.rand(size, size)
    samples = [
        one[None, None] for one in (noise, black, line, dark, torch.randn(size, size), bright)
    ]
    found = [resolution_layers(nn.Sequential(*net), x) for x in samples]
    assert found == [["1", "4"]] * 6
