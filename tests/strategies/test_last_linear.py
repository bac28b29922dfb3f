import pytest
import torch
from torch import nn

from rightreasons.errors import InvalidSettingError
from rightreasons.models.surgery import last_linear, read_inputs
from rightreasons.strategies.dfr import compute_features


def test_it_is_found_by_what_it_gives(make_net):
    class Twisted(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(5, 2)
            self.body = nn.Linear(3, 5)

        def forward(self, x):
            return self.head(self.body(x).relu())

    model = Twisted()
    assert last_linear(model, torch.rand(4, 3)) is model.head
    net = make_net()
    assert last_linear(net, torch.rand(4, 1, 8, 8)) is net[4]
    assert net.training
    assert not any(module._forward_hooks for module in net.modules())


def test_a_model_that_ends_otherwise():
    model = nn.Sequential(nn.Linear(3, 2), nn.Softplus())
    with pytest.raises(InvalidSettingError, match="logits are the output of an nn.Linear"):
        last_linear(model, torch.rand(1, 3))


def test_features_are_what_it_is_given(make_net, tiny_splits):
    net = make_net()
    features = compute_features(net, net[4], tiny_splits.val)
    assert net.training
    expected = net.eval()[:4](tiny_splits.val.batch.x)
    torch.testing.assert_close(features, expected.detach())


def test_inputs_are_read_while_it_lasts():
    layer = nn.Linear(3, 2)
    with read_inputs(layer) as inputs:
        layer(torch.ones(1, 3))
    layer(torch.ones(1, 3))
    assert len(inputs) == 1
