import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.models import SelectiveHeads, create, selective_net


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


def test_by_name_with_its_backbone():
    settings = {"backbone": "small_cnn", "hidden": 7}
    net = create("selective-net", classes=3, channels=1, size=16, **settings)
    assert net.selection[0].out_features == 7
    assert net.prediction.in_features == 256
    assert net(torch.rand(2, 1, 16, 16)).shape == (2, 3)
    smooth = selective_net(classes=2, size=16, activation="softplus", **settings)
    assert isinstance(smooth.selection[1], nn.Softplus)


def test_mistakes():
    with pytest.raises(InvalidSettingError, match="`hidden` to be a whole number from 1"):
        SelectiveHeads(body=nn.Identity(), num_features=3, classes=2, hidden=0)
    with pytest.raises(InvalidSettingError, match="`num_features` to be a whole number from 1"):
        SelectiveHeads(body=nn.Identity(), num_features=0, classes=2)
