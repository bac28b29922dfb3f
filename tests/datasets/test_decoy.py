import pytest
import torch

from rightreasons.core.rng import random_stream
from rightreasons.datasets.sets.decoys import GREYS, decoy_batch, draw_colours
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
