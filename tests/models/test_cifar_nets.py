import pytest
import torch
from torch import nn

from rightreasons.models import resnet32, wide_resnet28_10


@pytest.mark.parametrize(
    ("make", "layers", "parameters"),
    [(resnet32, 32, 464_154 + 2_752), (wide_resnet28_10, 26, 36_479_194)],
)
def test_layers_and_parameters_are_the_papers(make, layers, parameters):
    """ResNet-32 has 464,154 parameters, and here two shortcuts with 2,560 weights and norms.

    WideResNet counts the convolutions of its three shortcuts among 28 layers, not the head.
    """
    net = make()
    deep = [
        name
        for name, module in net.named_modules()
        if isinstance(module, nn.Conv2d | nn.Linear) and "downsample" not in name
    ]
    count = sum(one.numel() for one in net.parameters())
    assert len(deep) == layers
    assert count == parameters


@pytest.mark.parametrize("make", [resnet32, wide_resnet28_10])
def test_gives_logits_of_small_images(make):
    net = make(classes=4, channels=1, size=(9, 12), width=0.1).eval()
    x = torch.rand(2, 1, 9, 12)
    assert net(x).shape == (2, 4)
    assert net.layer3(net.layer2(net.layer1(net.act1(net.bn1(net.conv1(x)))))).shape[2:] == (3, 3)
