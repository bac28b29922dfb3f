import pytest
import torch
from torch import nn

from rightreasons.errors import InvalidSettingError
from rightreasons.models import lenet


@pytest.mark.parametrize(("activation", "kind"), [("relu", nn.ReLU), ("softplus", nn.Softplus)])
def test_the_papers_net(activation, kind):
    model = lenet(activation=activation)
    stage = [nn.Conv2d, kind, nn.Conv2d, kind, nn.MaxPool2d]
    head = [nn.Flatten, nn.Linear, kind, nn.Linear]
    assert [type(layer) for layer in model] == [*stage, *stage, *head]
    widths = [layer.out_channels for layer in model if isinstance(layer, nn.Conv2d)]
    assert widths == [32, 32, 64, 64]
    assert (model.fc1.in_features, model.fc1.out_features) == (4096, 256)
    assert sum(p.numel() for p in model.parameters()) == 1_116_970


def test_smaller_grey_images():
    model = lenet(classes=3, channels=1, size=(28, 14))
    assert model(torch.zeros(2, 1, 28, 14)).shape == (2, 3)


def test_image_too_small():
    with pytest.raises(InvalidSettingError, match="at least 4 x 4 pixels for lenet, but got 3 x 3"):
        lenet(size=3)
