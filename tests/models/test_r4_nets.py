import pytest
import torch
from torch import nn

from rightreasons.bounds import output_bounds
from rightreasons.errors import InvalidSettingError
from rightreasons.models import derma_net, isic_net, plant_net
from rightreasons.models.r4_nets import Convolution, convnet

PLAN = (
    Convolution(channels=3, kernel=3, stride=1, padding=1),
    Convolution(channels=2, kernel=2, stride=2, padding=0),
)
SETTINGS = {"convolutions": PLAN, "hidden": (5,), "classes": 4, "channels": 2, "size": (6, 9)}


def test_layers_and_their_names():
    model = convnet("a net", **SETTINGS, activation="tanh")
    assert list(dict(model.named_children())) == [
        *("conv1", "act1", "conv2", "act2", "flatten", "fc1", "act3", "fc2")
    ]
    assert model.conv2.stride == (2, 2)
    assert model.conv1.padding == (1, 1)
    assert model.fc1.in_features == 2 * 3 * 4
    assert model(torch.zeros(3, 2, 6, 9)).shape == (3, 4)


def test_nothing_left():
    with pytest.raises(InvalidSettingError, match="at least 2 x 2 pixels for a net, but got 1 x 9"):
        convnet("a net", **{**SETTINGS, "size": (1, 9)})


@pytest.mark.parametrize(("name", "value"), [("classes", 1), ("channels", 0)])
def test_counts(name, value):
    with pytest.raises(InvalidSettingError, match=f"`{name}` to be a whole number"):
        convnet("a net", **{**SETTINGS, name: value})


def test_the_papers_net():
    model = derma_net()
    convolutions = [layer for layer in model if isinstance(layer, nn.Conv2d)]
    windows = [(c.out_channels, c.kernel_size[0], c.stride[0], c.padding[0]) for c in convolutions]
    linear = [layer for layer in model if isinstance(layer, nn.Linear)]
    assert windows == [(32, 3, 1, 1), (32, 4, 2, 1), (64, 4, 1, 1), (64, 4, 2, 1)]
    widths = [(layer.in_features, layer.out_features) for layer in linear]
    assert widths == [(14400, 1024), (1024, 1024), (1024, 2)]
    assert model(torch.zeros(2, 3, 64, 64)).shape == (2, 2)


@pytest.mark.parametrize(("depth", "features"), [(2, 32768), (3, 61504), (4, 14400), (5, 12544)])
def test_each_depth_has_one_convolution_and_one_linear_layer_more(depth, features):
    with torch.device("meta"):
        model = derma_net(depth=depth)
    kinds = [type(layer) for layer in model]
    assert (kinds.count(nn.Conv2d), kinds.count(nn.Linear)) == (depth, depth - 1)
    assert model.fc1.in_features == features


def test_depth_out_of_range():
    with pytest.raises(InvalidSettingError, match="`depth` to be 2 or 3 or 4 or 5, but got 6"):
        derma_net(depth=6)


def test_image_too_small():
    with pytest.raises(InvalidSettingError, match="at least 6 x 6 pixels for derma_net"):
        derma_net(size=5)
    assert derma_net(size=6).fc1.in_features == 64


def test_width_scales_channels_and_hidden_layers():
    net = derma_net(size=28, width=0.5)
    assert [net.conv1.out_channels, net.conv4.out_channels] == [16, 32]
    assert net.fc1.out_features == net.fc2.out_features == 512
    assert net(torch.rand(2, 3, 28, 28)).shape == (2, 2)
    with pytest.raises(InvalidSettingError, match="Expected `width`"):
        derma_net(width=0.0)


@pytest.mark.parametrize(("depth", "features"), [(2, 43_808), (3, 82_944)])
def test_only_two_convolutions_leave_what_the_paper_says(depth, features):
    model = isic_net(depth=depth)
    assert model.fc1.in_features == features
    assert model.fc1.out_features == 100
    assert model(torch.zeros(1, 3, 299, 299)).shape == (1, 2)


def test_depth_out_of_range_isic_net():
    with pytest.raises(InvalidSettingError, match="`depth` to be 2 or 3, but got 4"):
        isic_net(depth=4)


@pytest.mark.parametrize(("depth", "at_least"), [(2, 10), (3, 18)])
def test_image_too_small_isic_net(depth, at_least):
    with pytest.raises(InvalidSettingError, match=f"at least {at_least} x {at_least} pixels"):
        isic_net(size=at_least - 1, depth=depth)
    model = isic_net(size=at_least, depth=depth)
    assert model(torch.zeros(1, 3, at_least, at_least)).shape == (1, 2)


def test_the_papers_net_plant_net():
    with torch.device("meta"):
        model = plant_net()
        logits = model(torch.zeros(1, 3, 213, 213))
    assert model.fc1.in_features == 173_056
    assert logits.shape == (1, 2)
    assert sum(p.numel() for p in model.parameters()) == 178_377_762


def test_layers_are_those_of_derma_net():
    assert str(plant_net(size=28)) == str(derma_net(size=28))


def test_image_too_small_plant_net():
    with pytest.raises(InvalidSettingError, match="at least 6 x 6 pixels for plant_net"):
        plant_net(size=(5, 213))


def test_bounds_hardly_widen_with_weights_for_bounds():
    """The width of the logits beside their size, with both kinds of weights."""
    looseness = {}
    for kind in ("usual", "interval"):
        torch.manual_seed(0)
        net = derma_net(size=28, width=0.5, initialisation=kind).eval()
        x = torch.rand(4, 3, 28, 28)
        lower, upper = output_bounds(net, x - 0.1, x + 0.1)
        with torch.no_grad():
            changes = net(x + 0.2 * torch.rand_like(x) - 0.1) - net(x)
        looseness[kind] = float((upper - lower).detach().mean() / changes.abs().mean())
    assert 100 * looseness["interval"] < looseness["usual"]
    layer = derma_net(size=28, initialisation="interval").fc1
    assert torch.equal((layer.weight != 0).sum(dim=1), torch.full((1024,), 4))
    drawn = layer.weight[layer.weight != 0].detach()
    assert float(drawn.std()) == pytest.approx(0.5**0.5, rel=0.05)
    assert not layer.bias.any()
