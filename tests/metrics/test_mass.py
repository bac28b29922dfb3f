import pytest
import torch
from tests.reference import explainers, focus
from tests.reference import metrics as slow
from torch import nn

import rightreasons as rr
from rightreasons.errors import UnknownNameError
from rightreasons.metrics import CamMass, InputGradientMass
from rightreasons.metrics.mass import mass_rows, mass_summary


def test_shares_by_hand():
    size = torch.tensor([[1.0, 3.0, 0.0, 4.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    mask = torch.tensor([[0.0, 1.0, 1.0, 0.5], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    rows = mass_rows(size, mask)
    assert rows["mass"].tolist() == [5 / 8, 0, 0]
    assert rows["area"].tolist() == [2.5 / 4, 0.5, 0]
    assert rows["total"].tolist() == [8, 0, 4]
    summary = mass_summary(rows)  # the second has no map, the third no mask
    assert summary == {"": 5 / 8, "low": 5 / 8, "high": 5 / 8, "area": 0.625, "n": 1.0}


def test_nothing_to_sum_up():
    none = mass_rows(torch.ones(2, 4), torch.zeros(2, 4))
    assert mass_summary(none) == {"area": 0.0, "n": 0.0}
    flat = mass_rows(torch.zeros(2, 4), torch.ones(1, 4))
    assert mass_summary(flat) == {"": 0.0, "area": 1.0, "n": 0.0}


def test_the_interval_surrounds_the_mean():
    rows = mass_rows(torch.rand(50, 6), torch.tensor([[1.0, 1.0, 0.0, 0.0, 0.0, 0.0]]))
    summary = mass_summary(rows)
    assert summary["low"] < summary[""] < summary["high"]
    assert summary["area"] == pytest.approx(1 / 3)


LEFT = torch.zeros(4, 1, 4, 4)
LEFT[..., :2] = 1
IMAGES = rr.Batch(x=torch.rand(4, 1, 4, 4) + 0.1, y=torch.tensor([0, 1, 0, 1]), mask=LEFT)


def cam_mass(model, batch, **settings):
    values = rr.evaluate(model, batch, [CamMass(**settings)])
    return {key.removeprefix("cam_mass").removeprefix("/"): one for key, one in values.items()}


def reading(weight):
    """Both logits are the image's positive part, weighted by ``weight``."""
    convolution = nn.Conv2d(1, 1, 1)
    nn.init.ones_(convolution.weight)
    nn.init.zeros_(convolution.bias)
    head = nn.Linear(16, 2)
    head.weight.data = weight.flatten().expand(2, 16).clone()
    return nn.Sequential(convolution, nn.ReLU(), nn.Flatten(), head)


def test_a_bright_part_has_its_share_of_the_map():
    x = torch.ones(4, 1, 4, 4)
    x[..., :2] = 3
    values = cam_mass(reading(torch.ones(4, 4)), IMAGES.replace(x=x))
    assert values[""] == pytest.approx(3 / 4)
    assert (values["area"], values["n"]) == (0.5, 4)


def test_maps_without_a_positive_part_are_left_out():
    assert cam_mass(reading(-torch.ones(4, 4)), IMAGES) == {
        "": 0.0,
        "area": 0.5,
        "n": 0.0,
    }


def test_cam_mass_equals_its_slow_twin():
    net = explainers.cnn(nn.Softplus).eval()
    mask = torch.rand(4, 1, 4, 4, dtype=torch.float64)
    x, y = torch.rand(4, 2, 4, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 1])
    fractions = []
    for n in range(4):
        with torch.no_grad():
            activation = net[:3](x[n : n + 1])[0]
        cam = focus.resized(focus.grad_cam(net[3:], activation, int(y[n])), 4, 4)
        total = sum(map(sum, cam))
        pairs = [(cam[i][j], mask[n, 0, i, j].item()) for i in range(4) for j in range(4)]
        if total:
            fractions.append(sum(value * mark for value, mark in pairs) / total)
    assert fractions
    values = cam_mass(net, rr.Batch(x=x, y=y, mask=mask), layer="2")
    assert values[""] == pytest.approx(sum(fractions) / len(fractions), rel=1e-5)
    assert values["n"] == len(fractions)


def test_the_last_layer_is_looked_for_in_each_model():
    metric = CamMass()
    for net in (reading(torch.ones(4, 4)), nn.Sequential(reading(torch.ones(4, 4)))):
        value = rr.evaluate(net, IMAGES, [metric])["cam_mass"]
        assert value == pytest.approx(cam_mass(net, IMAGES, layer=metric._explainer.layers[0])[""])


def test_of_several_layers_the_mean_share_counts():
    net = explainers.cnn(nn.ReLU).double().eval()
    batch = rr.Batch(
        x=torch.rand(1, 2, 4, 4, dtype=torch.float64),
        y=torch.tensor([0]),
        mask=LEFT[:1].double(),
    )
    for label in range(3):
        one = batch.replace(y=torch.tensor([label]))
        values = [cam_mass(net, one, layer=layer) for layer in ("0", "2")]
        alive = [value[""] for value in values if value["n"]]
        both = cam_mass(net, one, layer=["0", "2"])
        assert both["n"] == bool(alive)
        assert both[""] == pytest.approx(sum(alive) / max(len(alive), 1))


def test_errors():
    with pytest.raises(UnknownNameError, match="Expected a layer of the model, but got 'layer4'"):
        cam_mass(reading(LEFT[0, 0]), IMAGES, layer="layer4")


NAME = "input_gradient_mass"


def gradient_mass(model, batch, **settings):
    values = rr.evaluate(model, batch, [InputGradientMass(**settings)])
    return {name.removeprefix(NAME).removeprefix("/"): value for name, value in values.items()}


def linear(weight):
    model = nn.Linear(len(weight[0]), len(weight), bias=False)
    model.weight.data = torch.tensor(weight)
    return model


X, Y = torch.rand(4, 3), torch.tensor([0, 1, 0, 1])
FIRST = torch.tensor([[1.0, 0.0, 0.0]]).expand(4, 3)
VECTORS = rr.Batch(x=X, y=Y, mask=FIRST)


def test_a_model_that_reads_the_masked_feature_alone_has_one():
    assert gradient_mass(linear([[2.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]), VECTORS)[""] == 1


def test_a_model_that_ignores_the_masked_feature_has_zero():
    assert gradient_mass(linear([[0.0, 2.0, 1.0], [0.0, -1.0, 5.0]]), VECTORS)[""] == 0


def test_a_model_that_looks_everywhere_alike_has_the_area():
    values = gradient_mass(linear([[1.0, -1.0, 1.0], [2.0, 2.0, -2.0]]), VECTORS)
    assert values[""] == pytest.approx(1 / 3)
    assert values["area"] == pytest.approx(1 / 3)
    assert values["n"] == 4


def test_shares_are_averaged_over_samples_not_pooled():
    """The gradients of class 1 are a thousand times as large and count the same."""
    model = linear([[3.0, 1.0, 0.0], [1000.0, 0.0, 3000.0]])
    assert gradient_mass(model, VECTORS)[""] == pytest.approx((0.75 + 0.25) / 2)


def test_a_soft_mask_counts_in_part():
    half = VECTORS.replace(mask=0.5 * FIRST)
    values = gradient_mass(linear([[2.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]), half)
    assert values[""] == 0.5
    assert values["area"] == pytest.approx(1 / 6)


def test_samples_with_an_empty_mask_are_left_out():
    mask = FIRST.clone()
    mask[:2] = 0
    values = gradient_mass(linear([[2.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]), VECTORS.replace(mask=mask))
    bounds = {"low": 1.0, "high": 1.0}
    assert values == {"": 1.0, **bounds, "area": pytest.approx(1 / 3), "n": 2.0}


def test_samples_without_a_gradient_are_left_out():
    values = gradient_mass(linear([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), VECTORS)
    bounds = {"low": 1.0, "high": 1.0}
    assert values == {"": 1.0, **bounds, "area": pytest.approx(1 / 3), "n": 2.0}


def test_a_model_that_is_flat_everywhere_leans_on_nothing():
    values = gradient_mass(linear([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), VECTORS)
    assert values == {"": 0.0, "area": pytest.approx(1 / 3), "n": 0.0}


def test_a_gradient_that_is_not_a_number_shows():
    class Rooted(nn.Module):
        def forward(self, x):
            return torch.stack([(0 * x[:, 0]).sqrt(), x[:, 1]], dim=1)  # 0 * infinity

    assert str(gradient_mass(Rooted(), VECTORS)[""]) == "nan"


def test_input_gradient_mass_equals_its_slow_twin(tiny_net, tiny_batch):
    tiny_net.eval()
    batch = tiny_batch.replace(
        mask=tiny_batch.mask * torch.linspace(0, 1, 6, dtype=torch.float64).reshape(6, 1, 1, 1)
    )
    expected = slow.input_gradient_mass(tiny_net, batch)
    values = gradient_mass(tiny_net, batch)
    assert values.pop("low") < values[""] < values.pop("high")
    assert values == pytest.approx(expected)
    assert expected["n"] == 5


def test_other_targets_can_be_differentiated():
    model = linear([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert gradient_mass(model, VECTORS, target="logit")[""] == 0.5
    assert gradient_mass(model, VECTORS, target="margin")[""] == pytest.approx(0.5)
    constant = linear([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])  # x_0 cancels in the margin
    assert gradient_mass(constant, VECTORS, target="margin")[""] == 0
    with pytest.raises(UnknownNameError, match="Expected a target, but got 'logits'. Did you mean"):
        InputGradientMass(target="logits")


def test_the_logit_of_a_sure_model_still_has_a_gradient():
    model = linear([[2000.0, 1000.0, 0.0], [-2000.0, 0.0, -1000.0]])
    batch = rr.Batch(x=torch.ones(2, 3), y=torch.tensor([0, 0]), mask=FIRST[:2])
    assert gradient_mass(model, batch)["n"] == 2
    assert gradient_mass(model, batch, target="loss")["n"] == 0


def test_where_nothing_is_masked_there_is_nothing_to_measure():
    empty = VECTORS.replace(mask=torch.zeros(4, 3))
    values = gradient_mass(linear([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), empty)
    assert values == {"area": 0.0, "n": 0.0}
