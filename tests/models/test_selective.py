import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.metrics import RiskCoverage
from rightreasons.models import Abstaining, SelectiveHeads, abstaining, create, selective_net
from rightreasons.models.selective import BACKBONES, AbstainingPair, backbone_net, without_head

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


def test_gives_the_classes_and_records_all():
    inner = nn.Linear(5, 4)
    net = Abstaining(inner)
    batch = rr.Batch(x=torch.rand(6, 5), y=torch.tensor([0, 1, 2] * 2))
    probe = rr.Probe(net, batch, layers=["all_logits"])
    assert torch.equal(probe.activations["all_logits"], inner(batch.x))
    assert torch.equal(probe.logits, inner(batch.x)[:, :3])
    assert "accuracy" in rr.evaluate(net, batch, ["accuracy"])


def test_by_name_with_its_backbone():
    settings = {"backbone": "mlp", "backbone_settings": {"hidden": [6]}}
    net = create("abstaining", classes=3, channels=1, size=4, **settings)
    assert isinstance(net, Abstaining)
    assert net.model[-1].out_features == 4
    assert isinstance(
        abstaining(classes=2, size=4, activation="tanh", **settings).model[2], nn.Tanh
    )


def test_three_heads_on_one_body():
    net = SelectiveHeads(body=nn.Linear(5, 4), num_features=4, classes=3, hidden=6).eval()
    batch = rr.Batch(x=torch.rand(6, 5), y=torch.tensor([0, 1, 2] * 2))
    probe = rr.Probe(net, batch, layers=["selection", "auxiliary_logits"])
    features = net.body(batch.x)
    torch.testing.assert_close(probe.logits, net.prediction(features))
    assert probe.activations["selection"].shape == (6, 1)
    torch.testing.assert_close(
        probe.activations["auxiliary_logits"], net.auxiliary_logits(features)
    )


def test_by_name_with_its_backbone_selective_net():
    settings = {"backbone": "small_cnn", "hidden": 7}
    net = create("selective-net", classes=3, channels=1, size=16, **settings)
    assert net.selection[0].out_features == 7
    assert net.prediction.in_features == 256
    assert net(torch.rand(2, 1, 16, 16)).shape == (2, 3)
    smooth = selective_net(classes=2, size=16, activation="softplus", **settings)
    assert isinstance(smooth.selection[1], nn.Softplus)


def test_mistakes_selective_net():
    with pytest.raises(InvalidSettingError, match="`hidden` to be a whole number from 1"):
        SelectiveHeads(body=nn.Identity(), num_features=3, classes=2, hidden=0)
    with pytest.raises(InvalidSettingError, match="`num_features` to be a whole number from 1"):
        SelectiveHeads(body=nn.Identity(), num_features=0, classes=2)


def test_logits_are_logarithms_of_the_products():
    first, second = nn.Linear(4, 3), nn.Linear(4, 3)
    x = torch.randn(5, 4)
    logits = AbstainingPair(first, second)(x)
    products = first(x).softmax(dim=1) * second(x).softmax(dim=1)
    torch.testing.assert_close(logits.exp(), products)


def test_a_sample_on_which_they_disagree_is_answered_last():
    first, second = nn.Identity(), nn.Linear(2, 2, bias=False)
    second.weight.data = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])  # heeds the first feature alone
    x = torch.tensor([[3.0, 0.0], [-3.0, 4.0], [3.0, 9.0]])  # agree, agree, disagree
    batch = rr.Batch(x=x, y=torch.tensor([0, 1, 0]))
    metric = RiskCoverage(score="logit", coverages=[1.0, 2 / 3])
    pair = rr.evaluate(AbstainingPair(first, second), batch, [metric])
    alone = rr.evaluate(first, batch, [metric])
    assert pair["risk_coverage/error/66.6667"] < 1e-9
    assert alone["risk_coverage/error/66.6667"] > 0.4
