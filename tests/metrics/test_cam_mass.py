import pytest
import torch
from tests.reference import explainers, focus
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidBatchError, UnknownNameError
from rightreasons.metrics import CamMass

LEFT = torch.zeros(4, 1, 4, 4)
LEFT[..., :2] = 1
BATCH = rr.Batch(x=torch.rand(4, 1, 4, 4) + 0.1, y=torch.tensor([0, 1, 0, 1]), mask=LEFT)


def measured(model, batch, **settings):
    values = rr.evaluate(model, batch, [CamMass(**settings)])
    return {key.removeprefix("cam_mass").removeprefix("/"): one for key, one in values.items()}


def reading(weight):
    """Two classes that both like what a map of the image has where ``weight`` is."""
    convolution = nn.Conv2d(1, 1, 1)
    nn.init.ones_(convolution.weight)
    nn.init.zeros_(convolution.bias)
    head = nn.Linear(16, 2)
    head.weight.data = weight.flatten().expand(2, 16).clone()
    return nn.Sequential(convolution, nn.ReLU(), nn.Flatten(), head)


def test_a_bright_part_has_its_share_of_the_map():
    x = torch.ones(4, 1, 4, 4)
    x[..., :2] = 3
    values = measured(reading(torch.ones(4, 4)), BATCH.replace(x=x))
    assert values[""] == pytest.approx(3 / 4)
    assert (values["area"], values["n"]) == (0.5, 4)


def test_maps_without_a_positive_part_are_left_out():
    assert measured(reading(-torch.ones(4, 4)), BATCH) == {"": 0.0, "area": 0.5, "n": 0.0}


def test_equals_its_slow_twin():
    net = explainers.cnn(nn.Softplus).eval()
    mask = torch.rand(4, 1, 4, 4, dtype=torch.float64)
    x, y = torch.rand(4, 2, 4, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 1])
    shares = []
    for n in range(4):
        with torch.no_grad():
            activation = net[:3](x[n : n + 1])[0]
        cam = focus.resized(focus.grad_cam(net[3:], activation, int(y[n])), 4, 4)
        total = sum(map(sum, cam))
        pairs = [(cam[i][j], mask[n, 0, i, j].item()) for i in range(4) for j in range(4)]
        if total:
            shares.append(sum(value * mark for value, mark in pairs) / total)
    assert shares
    values = measured(net, rr.Batch(x=x, y=y, mask=mask), layer="2")
    assert values[""] == pytest.approx(sum(shares) / len(shares), rel=1e-5)
    assert values["n"] == len(shares)


def test_the_last_layer_is_looked_for_in_each_model():
    metric = CamMass()
    for net in (reading(torch.ones(4, 4)), nn.Sequential(reading(torch.ones(4, 4)))):
        value = rr.evaluate(net, BATCH, [metric])["cam_mass"]
        assert value == pytest.approx(measured(net, BATCH, layer=metric._explainer.layers[0])[""])


def test_of_several_layers_the_mean_share_counts():
    net = explainers.cnn(nn.ReLU).double().eval()
    batch = rr.Batch(
        x=torch.rand(1, 2, 4, 4, dtype=torch.float64),
        y=torch.tensor([0]),
        mask=LEFT[:1].double(),
    )
    for label in range(3):
        one = batch.replace(y=torch.tensor([label]))
        values = [measured(net, one, layer=layer) for layer in ("0", "2")]
        alive = [value[""] for value in values if value["n"]]
        both = measured(net, one, layer=["0", "2"])
        assert both["n"] == bool(alive)
        assert both[""] == pytest.approx(sum(alive) / max(len(alive), 1))


def test_errors():
    with pytest.raises(InvalidBatchError, match="Expected data with masks for CamMass"):
        measured(reading(LEFT[0, 0]), rr.Batch(x=BATCH.x, y=BATCH.y))
    with pytest.raises(UnknownNameError, match="Expected a layer of the model, but got 'layer4'"):
        measured(reading(LEFT[0, 0]), BATCH, layer="layer4")
