import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.models import AttentionBranch, attention_branch, create


def test_the_map_weighs_the_features():
    torch.manual_seed(0)
    features, judge = nn.Conv2d(3, 4, 1), nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    net = AttentionBranch(features=features, perception=judge, channels=4, classes=2).eval()
    x = torch.rand(5, 3, 4, 4)
    batch = rr.Batch(x=x, y=torch.zeros(5, dtype=torch.int64))
    probe = rr.Probe(net, batch, layers=["attention", "attention_logits"])
    attention = probe.activations["attention"]
    assert attention.shape == (5, 1, 4, 4)
    assert 0 < attention.min() <= attention.max() < 1
    assert probe.activations["attention_logits"].shape == (5, 2)
    torch.testing.assert_close(probe.logits, judge((1 + attention) * features(x)))


@pytest.mark.parametrize("backbone", ["resnet18", "resnet50"])
def test_the_residual_net_keeps_its_parameters(backbone):
    net = attention_branch(classes=5, channels=1, size=16, backbone=backbone, width=1 / 16)
    plain = create(backbone, classes=5, channels=1, size=16, width=1 / 16)
    own = {name.split(".", 1)[1] for name, _ in net.named_parameters() if "attention" not in name}
    assert {name for name, _ in plain.named_parameters()} <= own
    assert net(torch.rand(2, 1, 16, 16)).shape == (2, 5)


def test_the_small_net_keeps_its_parameters_and_its_places():
    net = attention_branch(classes=5, channels=1, size=16, backbone="small_cnn")
    plain = create("small_cnn", classes=5, channels=1, size=16, padding=1)
    own = {name.split(".", 1)[1] for name, _ in net.named_parameters() if "attention" not in name}
    assert {name for name, _ in plain.named_parameters()} <= own
    assert net(torch.rand(2, 1, 16, 16)).shape == (2, 5)
    assert net.features(torch.rand(1, 1, 16, 16)).shape == (1, 32, 8, 8)


def test_by_name_and_errors():
    assert isinstance(
        create("attention-branch", classes=3, channels=3, size=8, width=1 / 32), AttentionBranch
    )
    with pytest.raises(InvalidSettingError, match="`backbone` to be .*'small_cnn'"):
        attention_branch(backbone="vgg11")
    with pytest.raises(InvalidSettingError, match="`classes` to be a whole number from 2"):
        AttentionBranch(features=nn.Identity(), perception=nn.Identity(), channels=3, classes=1)
