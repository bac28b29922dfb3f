import pytest
import torch
from torch import nn

from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.models.layers import ACTIVATIONS, activation_factory


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
