import pytest
import torch

from rightreasons.core.rng import random_stream
from rightreasons.datasets.sets.decoys import (
    GREYS,
    all_corners_mask,
    corner_mask,
    decoy_batch,
    draw_colours,
    place_patches,
)
from rightreasons.errors import InvalidSettingError

Y = torch.arange(20000) % 10


def test_the_greys_are_the_published_ones():
    levels = {name: [round(255 * grey, 6) for grey in greys] for name, greys in GREYS.items()}
    assert levels["ross"] == [255, 230, 205, 180, 155, 130, 105, 80, 55, 30]
    assert levels["faint"] == [85, 76, 68, 60, 51, 43, 35, 26, 18, 10]


def test_the_label_rule_is_the_label():
    colours = draw_colours(Y, num_colours=10, rule="label", stream=random_stream(0))
    assert torch.equal(colours, Y)


@pytest.mark.parametrize(("rule", "own_share"), [("any", 0.1), ("wrong", 0.0)])
def test_random_rules_are_uniform_whatever_the_label(rule, own_share):
    colours = draw_colours(Y, num_colours=10, rule=rule, stream=random_stream(0))
    counts = torch.zeros(10, 10).index_put_((Y, colours), torch.ones(len(Y)), accumulate=True)
    shares = counts / 2000
    others = (1 - own_share) / 9
    expected = torch.full((10, 10), others).fill_diagonal_(own_share)
    # 5 standard deviations of a share of 2,000 draws
    assert (shares - expected).abs().max() < 5 * (0.1 * 0.9 / 2000) ** 0.5
    assert rule == "any" or counts.diagonal().sum() == 0


def test_the_corners_are_fair_and_do_not_depend_on_the_rule():
    x, palette = torch.zeros(20000, 1, 6, 6), torch.linspace(0.1, 1, 10)
    batches = [
        decoy_batch(x, Y, palette=palette, patch=1, rule=rule, stream=random_stream(0))
        for rule in ("label", "any")
    ]
    assert torch.equal(batches[0].mask, batches[1].mask)
    assert not torch.equal(batches[0].x, batches[1].x)
    share = batches[0].mask[:, 0, [0, 0, -1, -1], [0, -1, 0, -1]].mean(dim=0)
    assert (share - 0.25).abs().max() < 0.02


def test_colours_may_have_channels():
    palette = torch.tensor([[0.5, 0.5, 0.7], [0.5, 0.7, 0.5]])
    y = torch.tensor([1, 0])
    batch = decoy_batch(
        torch.zeros(2, 3, 8, 8), y, palette=palette, patch=2, rule="label", stream=random_stream(0)
    )
    assert torch.equal(batch.x.amax(dim=(2, 3)), palette[y])
    assert torch.equal(batch.group, y)


def test_unknown_rule():
    with pytest.raises(InvalidSettingError, match="`rule` to be 'label' or 'any' or 'wrong'"):
        draw_colours(Y, num_colours=10, rule="right", stream=random_stream(0))


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
