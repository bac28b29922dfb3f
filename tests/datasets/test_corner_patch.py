import pytest
import torch

from rightreasons.datasets.sets.decoys import all_corners_mask, corner_mask, place_patches
from rightreasons.errors import InvalidSettingError


@pytest.mark.parametrize(
    ("corner", "rows", "columns"),
    [
        (0, slice(0, 2), slice(0, 2)),
        (1, slice(0, 2), slice(5, 7)),
        (2, slice(3, 5), slice(0, 2)),
        (3, slice(3, 5), slice(5, 7)),
    ],
)
def test_every_corner_is_where_its_number_says(corner, rows, columns):
    expected = torch.zeros(1, 1, 5, 7, dtype=torch.bool)
    expected[:, :, rows, columns] = True
    mask = corner_mask(torch.tensor([corner]), height=5, width=7, patch=2)
    assert torch.equal(mask, expected)


def test_all_corners_are_the_four_together():
    mask = all_corners_mask(height=28, width=28, patch=4)
    assert mask.shape == (1, 1, 28, 28)
    assert mask.sum() == 64
    assert mask[0, 0, [0, 0, -1, -1], [0, -1, 0, -1]].all()


def test_patches_have_their_colour_and_the_rest_is_untouched():
    torch.manual_seed(0)
    x = torch.rand(6, 3, 8, 9)
    before = x.clone()
    corners, colours = torch.tensor([0, 1, 2, 3, 0, 1]), torch.rand(6, 3)
    painted, mask = place_patches(x, corners=corners, colours=colours, patch=2)
    assert torch.equal(x, before)
    assert mask.shape == (6, 1, 8, 9)
    assert mask.dtype == x.dtype
    assert mask.flatten(1).sum(dim=1).tolist() == [4.0] * 6
    inside = mask.bool().expand_as(x)
    assert torch.equal(painted[~inside], x[~inside])
    assert torch.equal(painted[inside], colours.repeat_interleave(4, dim=1).flatten())


def test_one_grey_serves_all_channels():
    painted, _ = place_patches(
        torch.zeros(1, 3, 4, 4), corners=torch.tensor([2]), colours=torch.tensor([0.5]), patch=1
    )
    assert painted[0, :, 3, 0].tolist() == [0.5, 0.5, 0.5]
    assert painted.sum() == 1.5


def test_a_patch_larger_than_the_image_is_refused():
    with pytest.raises(InvalidSettingError, match="`patch` to be a whole number from 1 to 5, but"):
        corner_mask(torch.tensor([0]), height=5, width=7, patch=6)
