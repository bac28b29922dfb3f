import weakref

import pytest
import torch
from tests.reference import explainers as twins
from torch import nn

from rightreasons.errors import InvalidBatchError, InvalidSettingError, UnknownNameError
from rightreasons.explainers import GradCAM, XGradCAM, last_spatial_layer

KINDS = [GradCAM, XGradCAM]


@pytest.mark.parametrize("kind", KINDS)
def test_several_layers_are_each_their_own_map(kind, activation, x, y):
    net = twins.make_net("residual", activation).eval()
    layers = ["1", "2.body.2", "3"]
    maps = kind(layers=layers)(net, x, y)
    assert maps.shape == (3, 3, 4, 4)
    for number, layer in enumerate(layers):
        torch.testing.assert_close(kind(layers=layer)(net, x, y)[:, 0], maps[:, number])


@pytest.mark.parametrize(("create_graph", "alive"), [(False, 0), (True, 1)])
def test_a_pass_is_gone_before_its_maps_are_weighed_unless_a_graph_is_wanted(
    create_graph, alive, x, y, monkeypatch
):
    net = twins.cnn(nn.ReLU).eval()
    early, counted = [], []
    net[0].register_forward_hook(lambda layer, given, output: early.append(weakref.ref(output)))
    weigh = GradCAM.channel_weights

    def counts(*given):
        counted.append(sum(one() is not None for one in early))
        return weigh(*given)

    monkeypatch.setattr(GradCAM, "channel_weights", counts)
    GradCAM(layers="6")(net, x, y, create_graph=create_graph)
    assert counted == [alive]


@pytest.mark.parametrize("kind", KINDS)
def test_one_forward_and_one_backward_serve_all_layers(kind, x, y):
    net = twins.cnn(nn.ReLU).eval()
    forwards, backwards = [], []
    net.register_forward_hook(lambda *_: forwards.append(1))
    net[-1].register_full_backward_hook(lambda *_: backwards.append(1))
    kind(layers=["2", "6"])(net, x, y)
    assert (len(forwards), len(backwards)) == (1, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_spatial_layer_is_the_default(kind, x, y):
    net = twins.cnn(nn.ReLU).eval()
    layer = last_spatial_layer(net, x)
    assert torch.equal(kind()(net, x, y), kind(layers=[layer])(net, x, y))


def test_an_unknown_layer_is_answered_with_the_nearest(x, y):
    net = twins.resnet(nn.ReLU)
    with pytest.raises(UnknownNameError, match="layer of the model, but got 'layer5'.*'layer4'"):
        GradCAM(layers=["layer5"])(net, x, y)


def test_a_layer_without_maps(x, y):
    net = twins.cnn(nn.ReLU)
    with pytest.raises(InvalidSettingError, match=r"'8' to give maps \(N, C, H, W\).*\(3, 5\)"):
        GradCAM(layers="8")(net, x, y)


def test_a_layer_that_is_not_used(x, y):
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.aside = twins.cnn(nn.ReLU), nn.Conv2d(2, 2, 1).double()

        def forward(self, x):
            self.aside(x)
            return self.net(x)

    with pytest.raises(InvalidSettingError, match="they do not depend on 'aside'"):
        GradCAM(layers="aside")(Unused(), x, y)


def test_models_without_maps_and_inputs_that_are_no_images(x, y):
    with pytest.raises(InvalidSettingError, match="Name a layer with `layers="):
        GradCAM()(twins.mlp(nn.ReLU), x, y)
    with pytest.raises(InvalidBatchError, match=r"images \(N, C, H, W\) for GradCAM.*\(3, 32\)"):
        GradCAM()(twins.mlp(nn.ReLU), x.flatten(1), y)
    with pytest.raises(InvalidSettingError, match="`layers` to name at least one layer"):
        GradCAM(layers=[])
