import pytest
import torch

from rightreasons.errors import InvalidSettingError
from rightreasons.models import isic_net


@pytest.mark.parametrize(("depth", "features"), [(2, 43_808), (3, 82_944)])
def test_only_two_convolutions_leave_what_the_paper_says(depth, features):
    model = isic_net(depth=depth)
    assert model.fc1.in_features == features
    assert model.fc1.out_features == 100
    assert model(torch.zeros(1, 3, 299, 299)).shape == (1, 2)


def test_depth_out_of_range():
    with pytest.raises(InvalidSettingError, match="`depth` to be 2 or 3, but got 4"):
        isic_net(depth=4)


@pytest.mark.parametrize(("depth", "at_least"), [(2, 10), (3, 18)])
def test_image_too_small(depth, at_least):
    with pytest.raises(InvalidSettingError, match=f"at least {at_least} x {at_least} pixels"):
        isic_net(size=at_least - 1, depth=depth)
    model = isic_net(size=at_least, depth=depth)
    assert model(torch.zeros(1, 3, at_least, at_least)).shape == (1, 2)
