"""Names, and what every model must do whatever its name."""

import inspect

import pytest
import torch
from torch import fx, nn
from torch.nn import functional

from rightreasons import models
from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.models.registry import create, describe, names

SLIM = {
    "abstaining": {"backbone_settings": {"width": 1 / 16}},
    "attention_branch": {"width": 1 / 16},
    "efficientnet_lite0": {"width": 1 / 16},
    "mlp": {"hidden": [8]},
    "mlp2": {"hidden": [8, 6]},
    "resnet18": {"width": 1 / 16},
    "resnet32": {"width": 1 / 8},
    "resnet34": {"width": 1 / 16},
    "resnet50": {"width": 1 / 16},
    "selective_net": {"backbone_settings": {"width": 1 / 16}, "hidden": 8},
    "vgg11": {"width": 1 / 32},
    "wide_resnet28_10": {"width": 1 / 80},
}
SMALLEST = {
    "abstaining": 8,
    "attention_branch": 8,
    "derma_net": 6,
    "efficientnet_lite0": 16,
    "isic_net": 10,
    "lenet": 4,
    "mlp": 1,
    "mlp2": 1,
    "plant_net": 6,
    "resnet18": 8,
    "resnet32": 4,
    "resnet34": 8,
    "resnet50": 8,
    "selective_net": 8,
    "small_cnn": 16,
    "vgg11": 16,
    "wide_resnet28_10": 4,
}

TEXTS = ["text_cnn", "text_lstm", "text_mlp", "transformer"]  # see tests/contracts/test_tokens.py
ONE_HEAD = [name for name in SMALLEST if name != "selective_net"]  # all of it makes the logits


def slim(name, *, size=16, channels=3, seed=0, **settings):
    torch.manual_seed(seed)
    settings = {**SLIM.get(name, {}), **settings}
    return create(name, classes=4, channels=channels, size=size, **settings)


def penalty_gradients(model, x):
    """Gradients of the squared input gradient with respect to every parameter."""
    y = torch.arange(len(x)) % 4
    loss = functional.cross_entropy(model(x), y, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    return torch.autograd.grad(gradient.square().sum(), list(model.parameters()))


def test_names_are_those_of_the_functions():
    assert list(names()) == sorted([*SMALLEST, *TEXTS])
    assert all(callable(getattr(models, name)) for name in names())


def test_describe_gives_one_short_line_each():
    lines = describe()
    assert tuple(lines) == names()
    assert len(set(lines.values())) == len(lines)
    assert all(line.endswith(".") and 20 < len(line) <= 80 for line in lines.values())


@pytest.mark.parametrize("name", SMALLEST)
@pytest.mark.parametrize("size", [28, 32, (28, 56)])
def test_each_is_built_with_its_own_defaults(name, size):
    with torch.device("meta"):
        model = create(name, classes=7, channels=3, size=size)
        height, width = (size, size) if isinstance(size, int) else size
        assert model(torch.zeros(2, 3, height, width)).shape == (2, 7)


@pytest.mark.parametrize("name", SMALLEST)
def test_each_takes_data_settings_by_the_same_words(name):
    function = getattr(models, name)
    parameters = inspect.signature(function).parameters
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters.values())
    assert "classes" in parameters
    assert "inputs" in parameters or {"channels", "size"} <= set(parameters)


@pytest.mark.parametrize("name", SMALLEST)
def test_same_seed_same_weights(name):
    first, second, other = slim(name).state_dict(), slim(name).state_dict(), slim(name, seed=1)
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert any(not torch.equal(first[key], value) for key, value in other.state_dict().items())


@pytest.mark.parametrize("name", SMALLEST)
@pytest.mark.parametrize("training", [True, False])
def test_logits_are_finite_in_both_modes(name, training):
    model = slim(name, channels=1).train(training)
    logits = model(torch.randn(3, 1, 16, 16))
    assert logits.shape == (3, 4)
    assert logits.isfinite().all()


@pytest.mark.parametrize("name", ONE_HEAD)
def test_second_derivatives_reach_every_parameter(name):
    model = slim(name, activation="softplus").double().eval()
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64, requires_grad=True)
    gradients = penalty_gradients(model, x)
    named = zip(model.named_parameters(), gradients, strict=True)
    missed = [key for (key, _), g in named if not (g.isfinite().all() and g.any())]
    assert missed == []


@pytest.mark.parametrize("name", ONE_HEAD)
def test_default_net_in_training_is_differentiable_twice(name):
    model = slim(name).double()
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64, requires_grad=True)
    gradients = penalty_gradients(model, x)
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("name", SMALLEST)
def test_nothing_works_in_place(name):
    model = slim(name)
    assert not [n for n, module in model.named_modules() if getattr(module, "inplace", False)]
    x = torch.randn(2, 3, 16, 16)
    before = x.clone()
    model(x)
    assert torch.equal(x, before)


@pytest.mark.parametrize("name", SMALLEST)
def test_traced_by_torch_fx(name):
    model = slim(name).eval()
    x = torch.randn(2, 3, 16, 16)
    traced = fx.symbolic_trace(model)
    assert torch.equal(traced(x), model(x))
    assert {node.op for node in traced.graph.nodes} <= {
        *("placeholder", "call_module", "call_function", "get_attr", "output")
    }


@pytest.mark.parametrize("name", [n for n in SMALLEST if SMALLEST[n] > 1])
def test_images_too_small(name):
    smallest = SMALLEST[name]
    with pytest.raises(InvalidSettingError, match=f"at least {smallest} x {smallest} pixels for"):
        slim(name, size=(smallest - 1, 64))
    model = slim(name, size=smallest)
    assert model(torch.randn(2, 3, smallest, smallest)).shape == (2, 4)


@pytest.mark.parametrize("name", SMALLEST)
@pytest.mark.parametrize(
    ("data", "word"),
    [
        ({"classes": 1}, "classes"),
        ({"channels": 0}, "channels"),
        ({"size": 0}, "size"),
    ],
)
def test_impossible_data(name, data, word):
    with pytest.raises(InvalidSettingError, match=f"Expected `{word}` to be a whole number"):
        create(name, **{"classes": 2, "channels": 3, "size": 16, **data}, **SLIM.get(name, {}))


def test_settings_reach_the_model():
    model = create("derma-net", classes=2, channels=1, size=(12, 16), depth=3, activation="tanh")
    assert isinstance(model.act3, nn.Tanh)
    assert not hasattr(model, "conv4")


def test_dash_and_underscore_are_the_same():
    first, second = (
        str(create(name, classes=2, channels=3, size=28)) for name in ("small-cnn", "small_cnn")
    )
    assert first == second


def test_unknown_name():
    with pytest.raises(UnknownNameError, match="Expected a model, but got 'resnet-19'.*'resnet18'"):
        create("resnet-19", classes=2, channels=3, size=32)


def test_unknown_setting():
    message = "settings of the model 'mlp' among: hidden, activation; but got depth, widht"
    with pytest.raises(InvalidSettingError, match=message):
        create("mlp", classes=2, channels=3, size=32, depth=3, widht=2)


@pytest.mark.parametrize(
    ("name", "vocabulary", "words"),
    [
        ("mlp", 9, "model for texts, but 'mlp' is for pixels or columns. Use one of text_cnn"),
        ("text_mlp", None, "model for pixels or columns, but 'text_mlp' is for texts"),
    ],
)
def test_texts_need_their_own_models(name, vocabulary, words):
    with pytest.raises(InvalidSettingError, match=words):
        create(name, classes=2, channels=5, size=(), vocabulary=vocabulary)
