import pytest
import torch
from tests.reference import leakage as slow
from torch import nn

from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers import activation_maximisation

SHAPE = (2, 3, 3)


def net():
    layers = (nn.Flatten(), nn.Linear(18, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 3))
    return nn.Sequential(*layers).double()


def test_equals_its_slow_twin():
    model = net()
    settings = {"step_size": 0.2, "valid_range": (-0.5, 0.5)}
    start = activation_maximisation(model, [2, 0], shape=SHAPE, num_steps=0, **settings)
    found = activation_maximisation(model, [2, 0], shape=SHAPE, num_steps=6, **settings)
    assert model.training
    model.eval()
    for picture, begun, y in zip(found, start, (2, 0), strict=True):
        assert -0.5 <= begun.min() < -0.1 < 0.1 < begun.max() <= 0.5
        expected = slow.climbed(model, begun, y, num_steps=6, **settings)
        assert torch.allclose(picture, expected)
        assert model(picture[None])[0, y] > model(begun[None])[0, y]


def test_starts_depend_on_the_seed_and_the_place():
    model = net()
    first = activation_maximisation(model, [1, 1], shape=SHAPE, num_steps=3)
    assert not torch.equal(first[0], first[1])
    assert torch.equal(first[:1], activation_maximisation(model, [1], shape=SHAPE, num_steps=3))
    other = activation_maximisation(model, [1, 1], shape=SHAPE, num_steps=3, seed=1)
    assert not torch.equal(first, other)


def test_a_flat_model_leaves_its_pictures_where_they_began():
    model = net()
    model[-1].weight.data.zero_()
    still = activation_maximisation(model, [1], shape=SHAPE, num_steps=2)
    assert torch.equal(still, activation_maximisation(model, [1], shape=SHAPE, num_steps=0))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_steps": -1}, "Expected `num_steps` to be a whole number from 0"),
        ({"step_size": 0}, "Expected `step_size` to be a finite number above 0"),
        ({"valid_range": (1.0, 0.0)}, "`valid_range` to be a smallest and a largest value"),
        ({"valid_range": 0.5}, "`valid_range` to be a smallest and a largest value"),
        ({"shape": ()}, "Expected `classes` and `shape` to hold something"),
        ({"shape": (0, 2)}, "Expected `shape` to be a whole number from 1"),
        ({"classes": []}, "Expected `classes` and `shape` to hold something"),
        ({"classes": [-1]}, "Expected `classes` to be a whole number from 0"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        activation_maximisation(net(), **{"classes": [0], "shape": SHAPE, **settings})


def test_a_class_the_model_does_not_have():
    with pytest.raises(InvalidBatchError, match="Expected labels from 0 to 2"):
        activation_maximisation(net(), [3], shape=SHAPE)
