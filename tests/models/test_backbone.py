import pytest
import torch
from torch import nn

from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.models.selective import BACKBONES, backbone_net, without_head

SLIM = {"lenet": {"width": 1 / 8}, "mlp": {"hidden": [8]}, "vgg11": {"width": 1 / 32}}
SLIM |= {name: {"width": 1 / 16} for name in ("resnet18", "resnet34", "resnet50")}


@pytest.mark.parametrize("name", list(BACKBONES))
def test_every_net_gives_logits_with_its_head_and_features_without(name):
    shape = {"classes": 5, "channels": 2, "size": 16, "activation": "relu"}
    net = backbone_net(name, **shape, settings=SLIM.get(name)).eval()
    x = torch.rand(3, 2, 16, 16)
    logits = net(x)
    assert logits.shape == (3, 5)
    body, head = without_head(net)
    assert body is net and head.out_features == 5
    torch.testing.assert_close(head(body(x)), logits)


def test_settings_reach_the_net():
    shape = {"classes": 3, "channels": 1, "size": 4}
    net = backbone_net("mlp", **shape, activation="tanh", settings={"hidden": [6, 7]})
    assert isinstance(net[2], nn.Tanh) and net[3].out_features == 7
    own = backbone_net("mlp", **shape, activation="tanh", settings={"activation": "relu"})
    assert isinstance(own[2], nn.ReLU)


def test_mistakes():
    shape = {"classes": 3, "channels": 1, "size": 4, "activation": "relu"}
    with pytest.raises(UnknownNameError, match="Expected a backbone, but got 'resnet19'"):
        backbone_net("resnet19", **shape)
    with pytest.raises(InvalidSettingError, match="settings of the backbone 'mlp' among"):
        backbone_net("mlp", **shape, settings={"width": 2})
    for model in (nn.Sequential(nn.ReLU()), nn.Linear(2, 2)):
        with pytest.raises(InvalidSettingError, match="a model that ends in an nn.Linear behind"):
            without_head(model)
