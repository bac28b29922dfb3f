import pytest
import torch
from torch import nn

from rightreasons.errors import InvalidSettingError
from rightreasons.models.layers import check_size, remaining_size

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
