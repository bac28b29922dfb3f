import weakref

import pytest
import torch
from tests.reference import explainers as twins
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidBatchError, InvalidSettingError, UnknownNameError
from rightreasons.explainers import GradCAM, XGradCAM, last_spatial_layer
from rightreasons.explainers.grad_cam import activation_gradients
from rightreasons.types import Target

KINDS = {"grad_cam": GradCAM, "xgrad_cam": XGradCAM}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "layer"), [("cnn", "2"), ("cnn", "6"), ("residual", "3")])
def test_equals_its_slow_twin(kind, name, layer, activation, x, y):
    net = twins.make_net(name, activation).eval()
    maps = KINDS[kind](layers=[layer])(net, x, y)
    for n in range(len(x)):
        expected = twins.class_activation(
            net, net.get_submodule(layer), x[n], int(y[n]), (4, 4), kind=kind
        )
        torch.testing.assert_close(maps[n, 0], expected)
    assert maps.abs().sum() > 0


def test_a_silent_map_gets_no_weight():
    activation = torch.zeros(1, 2, 2, 2)
    activation[0, 1] = 1
    gradient = torch.ones(1, 2, 2, 2)
    weights = XGradCAM().channel_weights(activation.requires_grad_(), gradient)
    assert weights.tolist() == [[0, 1]]
    (slopes,) = torch.autograd.grad(weights.sum(), activation)
    assert torch.isfinite(slopes).all()


@pytest.mark.parametrize("kind", KINDS.values())
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


@pytest.mark.parametrize("kind", KINDS.values())
def test_one_forward_and_one_backward_serve_all_layers(kind, x, y):
    net = twins.cnn(nn.ReLU).eval()
    forwards, backwards = [], []
    net.register_forward_hook(lambda *_: forwards.append(1))
    net[-1].register_full_backward_hook(lambda *_: backwards.append(1))
    last_spatial_layer(net, x)  # where the places of layers are is found out once
    forwards.clear(), backwards.clear()
    kind(layers=["2", "6"])(net, x, y)
    assert (len(forwards), len(backwards)) == (1, 1)


@pytest.mark.parametrize("kind", KINDS.values())
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
