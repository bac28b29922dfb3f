import pytest
import torch
from torch import nn

from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.models import Abstaining, normalised
from rightreasons.models.layers import (
    ACTIVATIONS,
    activation_factory,
    check_size,
    remaining_size,
    side_output,
)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_name_makes_new_modules_that_leave_their_input_alone(name):
    make = activation_factory(name)
    x = torch.linspace(-2.0, 2.0, 9)
    before = x.clone()
    make()(x)
    assert make() is not make()
    assert torch.equal(x, before)


def test_softplus_has_the_papers_beta():
    x = torch.tensor([-1.0, 0.0, 0.5], dtype=torch.float64)
    expected = torch.log(1 + torch.exp(3 * x)) / 3
    torch.testing.assert_close(activation_factory("softplus")()(x), expected)


def test_a_function_is_taken_as_it_is():
    assert isinstance(activation_factory(nn.SiLU)(), nn.SiLU)


def test_unknown_name():
    with pytest.raises(UnknownNameError, match="kind of activation, but got 'relo'.*'relu'"):
        activation_factory("relo")


def test_a_module_would_be_shared():
    with pytest.raises(InvalidSettingError, match=r"all places would share. Use lambda: ReLU\(\)"):
        activation_factory(nn.ReLU())


LAYERS = (
    nn.Conv2d(1, 2, 5, stride=2, padding=1),
    nn.ReLU(),
    nn.MaxPool2d((3, 3), stride=(2, 2), padding=(1, 1)),
    nn.Conv2d(2, 1, 4),
)


@pytest.mark.parametrize("size", [(17, 17), (18, 31), (40, 23)])
def test_remaining_size_is_what_the_layers_leave(size):
    left = nn.Sequential(*LAYERS)(torch.zeros(1, 1, *size))
    assert remaining_size("a net", LAYERS, size) == tuple(left.shape[2:])


def test_the_smallest_size_named_in_the_error_is_the_smallest_that_works():
    with pytest.raises(
        InvalidSettingError, match="at least 15 x 15 pixels for a net, but got 14 x 40.*such as mlp"
    ):
        remaining_size("a net", LAYERS, (14, 40))
    assert remaining_size("a net", LAYERS, 15) == (1, 1)


@pytest.mark.parametrize("size", [(3,), (1, 2, 3), []])
def test_size_has_one_or_two_sides(size):
    with pytest.raises(InvalidSettingError, match=r"one number of pixels or \(H, W\), but got"):
        check_size(size)


@pytest.mark.parametrize("size", [0, "28", 2.5, (28, None)])
def test_sides_are_counts(size):
    with pytest.raises(InvalidSettingError, match="`size` to be a whole number from 1"):
        check_size(size)


def test_a_side_may_be_too_short():
    assert check_size((8, 9), low=8) == (8, 9)
    with pytest.raises(InvalidSettingError, match="at least 8 x 8 pixels for vgg, but got 9 x 7"):
        check_size((9, 7), model="vgg", low=8)


def test_found_wherever_it_is():
    net = Abstaining(nn.Linear(4, 3))
    assert side_output(net, "all_logits") == "all_logits"
    assert side_output(normalised(net, mean=0, deviation=1), "all_logits") == "net.all_logits"
    nested = nn.ModuleDict({"inner": nn.ModuleDict({"selection": nn.ReLU()}), "selection": net})
    assert side_output(nested, "selection") == "selection"  # the outermost


def test_a_model_without_it_is_told_what_to_use():
    with pytest.raises(InvalidSettingError, match="'all_logits', but Linear has none. Use the mod"):
        side_output(nn.Linear(2, 2), "all_logits")
    with pytest.raises(InvalidSettingError, match="or give a body of your own to SelectiveHeads"):
        side_output(nn.Linear(2, 2), "auxiliary_logits")
    with pytest.raises(InvalidSettingError, match="Use the model that has one"):
        side_output(nn.Linear(2, 2), "attention")
