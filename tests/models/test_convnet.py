import pytest
import torch

from rightreasons.errors import InvalidSettingError
from rightreasons.models.r4_nets import Convolution, convnet

PLAN = (
    Convolution(channels=3, kernel=3, stride=1, padding=1),
    Convolution(channels=2, kernel=2, stride=2, padding=0),
)
SETTINGS = {"convolutions": PLAN, "hidden": (5,), "classes": 4, "channels": 2, "size": (6, 9)}


def test_layers_and_their_names():
    model = convnet("a net", **SETTINGS, activation="tanh")
    assert list(dict(model.named_children())) == [
        *("conv1", "act1", "conv2", "act2", "flatten", "fc1", "act3", "fc2")
    ]
    assert model.conv2.stride == (2, 2)
    assert model.conv1.padding == (1, 1)
    assert model.fc1.in_features == 2 * 3 * 4
    assert model(torch.zeros(3, 2, 6, 9)).shape == (3, 4)


def test_nothing_left():
    with pytest.raises(InvalidSettingError, match="at least 2 x 2 pixels for a net, but got 1 x 9"):
        convnet("a net", **{**SETTINGS, "size": (1, 9)})


@pytest.mark.parametrize(("name", "value"), [("classes", 1), ("channels", 0)])
def test_counts(name, value):
    with pytest.raises(InvalidSettingError, match=f"`{name}` to be a whole number"):
        convnet("a net", **{**SETTINGS, name: value})
