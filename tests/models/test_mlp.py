import pytest
import torch
from torch import nn

from rightreasons.errors import InvalidSettingError
from rightreasons.models import mlp, mlp2


def test_decoy_mnist_net():
    model = mlp(inputs=784, hidden=(512,), classes=10)
    shapes = [tuple(parameter.shape) for parameter in model.parameters()]
    assert shapes == [(512, 784), (512,), (10, 512), (10,)]
    assert [type(layer) for layer in model] == [nn.Flatten, nn.Linear, nn.ReLU, nn.Linear]


def test_images_and_vectors_give_the_same():
    model = mlp(inputs=12, hidden=[5, 4], classes=3, activation="softplus")
    x = torch.randn(2, 3, 2, 2)
    assert torch.equal(model(x), model(x.flatten(1)))


def test_value_is_the_formula():
    model = mlp(inputs=4, hidden=(6,), classes=3)
    x = torch.randn(5, 4)
    hidden = (x @ model[1].weight.T + model[1].bias).clamp(min=0)
    torch.testing.assert_close(model(x), hidden @ model[3].weight.T + model[3].bias)


def test_no_hidden_layer_is_a_linear_model():
    assert [type(layer) for layer in mlp(inputs=4, hidden=(), classes=2)] == [nn.Flatten, nn.Linear]


def test_two_hidden_layers():
    widths = [layer.out_features for layer in mlp2(inputs=8, classes=2) if hasattr(layer, "weight")]
    assert widths == [512, 512, 2]


@pytest.mark.parametrize("hidden", [512, "512", None])
def test_hidden_is_a_list(hidden):
    with pytest.raises(InvalidSettingError, match=r"`hidden` to be a list of widths.*\(512,\)"):
        mlp(inputs=4, hidden=hidden, classes=2)


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"inputs": 0}, "inputs"), ({"hidden": (4, 0)}, "hidden"), ({"classes": 1}, "classes")],
)
def test_counts(settings, name):
    with pytest.raises(InvalidSettingError, match=f"`{name}` to be a whole number"):
        mlp(**{"inputs": 4, "classes": 2, **settings})
