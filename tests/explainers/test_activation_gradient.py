import pytest
import torch
from tests.reference import explainers as twins
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.explainers.grad_cam import activation_gradients
from rightreasons.types import Target


@pytest.fixture
def probe(x, y):
    net = twins.cnn(nn.Softplus).eval()
    return rr.Probe(net, rr.Batch(x=x, y=y), needs_gradient=True, layers=["2", "6", "8"])


def test_each_layer_has_its_map_and_gradient(probe, x, y):
    found = activation_gradients(probe, ["2", "6"], Target.LOGIT)
    for layer, (activation, gradient) in zip((2, 6), found, strict=True):
        head = probe.model[layer + 1 :]
        moved = activation.detach().requires_grad_()
        own = head(moved).gather(1, y[:, None]).sum()
        torch.testing.assert_close(activation, probe.model[: layer + 1](x))
        torch.testing.assert_close(gradient, torch.autograd.grad(own, moved)[0])
        assert gradient.requires_grad


def test_the_pass_can_be_differentiated_again_afterwards(probe):
    activation_gradients(probe, ["6"], Target.LOGIT)
    assert probe.gradient("logit").shape == probe.features.shape


def test_layers_without_maps_or_not_recorded(probe):
    with pytest.raises(InvalidSettingError, match=r"'8' to give maps \(N, C, H, W\).*\(3, 5\)"):
        activation_gradients(probe, ["8"], Target.LOGIT)
    with pytest.raises(InvalidSettingError, match="'3' to give maps.*got no tensor"):
        activation_gradients(probe, ["3"], Target.LOGIT)
