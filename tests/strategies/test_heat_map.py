import pytest
import torch

from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.explainers import InputGradient, XGradCAM
from rightreasons.strategies import masktune as heat_map
from rightreasons.strategies.masktune import heat_maps, settled_explainer


def test_maps_are_of_the_predicted_class(tiny_splits, make_net, monkeypatch):
    monkeypatch.setattr(heat_map, "BATCH_SIZE", 20)
    net, data = make_net().eval(), tiny_splits.train
    found = list(heat_maps(net, data, settled_explainer("xgrad_cam", {}, None)))
    assert torch.equal(torch.cat([places for places, _ in found]), torch.arange(64))
    predicted = net(data.batch.x).argmax(dim=1)
    expected = XGradCAM(layers=["2"])(net, data.batch.x, predicted)
    torch.testing.assert_close(torch.cat([heat for _, heat in found]), expected)


def test_a_batch_takes_one_pass(tiny_splits, make_net, monkeypatch):
    monkeypatch.setattr(heat_map, "BATCH_SIZE", 20)
    net, sizes = make_net(), []
    net[-1].register_forward_hook(lambda _module, _given, logits: sizes.append(len(logits)))
    maker = settled_explainer("xgrad_cam", {}, "2")
    assert len(list(heat_maps(net, tiny_splits.train, maker))) == 4
    assert sizes == [20, 20, 20, 4]


def test_the_layer_may_be_named(tiny_splits, make_net):
    net, x = make_net(), tiny_splits.train.batch.x
    assert settled_explainer("xgrad_cam", {}, None)(net, x).layers == ("2",)
    assert settled_explainer("grad_cam", {}, "0")(net, x).layers == ("0",)
    assert settled_explainer("grad_cam", {"layers": ["1"]}, None)(net, x).layers == ("1",)


def test_other_explainers_are_summed_over_channels(tiny_splits, make_net):
    net, data = make_net().eval(), tiny_splits.val
    ((_, heat),) = heat_maps(net, data, settled_explainer("input_gradient", {}, None))
    predicted = net(data.batch.x).argmax(dim=1)
    torch.testing.assert_close(heat, InputGradient()(net, data.batch.x, predicted).abs())


def test_the_model_is_left_in_its_mode(tiny_splits, make_net):
    net = make_net()
    before = net[1].running_mean.clone()
    list(heat_maps(net, tiny_splits.val, settled_explainer("xgrad_cam", {}, None)))
    assert net.training
    assert torch.equal(net[1].running_mean, before)


def test_mistakes_are_told_at_once():
    with pytest.raises(UnknownNameError, match="Did you mean 'xgrad_cam'"):
        settled_explainer("xgradcam", {}, None)
    with pytest.raises(InvalidSettingError, match="but got sharpness"):
        settled_explainer("grad_cam", {"sharpness": 2}, None)
    with pytest.raises(InvalidSettingError, match="that reads a `layer`.* but got 'lrp'"):
        settled_explainer("lrp", {}, "conv4")
