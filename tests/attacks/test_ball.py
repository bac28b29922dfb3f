import math

import pytest
import torch

from rightreasons.attacks import Ball
from rightreasons.errors import InvalidSettingError


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_projects_into_ball_and_range_and_leaves_alone_what_is_inside(norm):
    ball = Ball(epsilon=0.3, norm=norm)
    x = torch.rand(50, 2, 3, dtype=torch.float64)
    point = ball.project(x + torch.randn_like(x), x)
    moves = (point - x).flatten(1)
    lengths = moves.abs().amax(1) if norm == "linf" else moves.norm(dim=1)
    assert (lengths <= 0.3 * (1 + 1e-12)).all() and lengths.max() > 0.29
    assert point.min() >= 0 and point.max() <= 1
    torch.testing.assert_close(ball.project(point, x), point)


def test_a_feature_out_of_range_may_stay():
    x = torch.tensor([[1.5, -0.5, 0.5]])
    assert torch.equal(Ball(epsilon=0.1).project(x, x), x)
    moved = Ball(epsilon=0.1).project(x + torch.tensor([[1.0, -1.0, 1.0]]), x)
    torch.testing.assert_close(moved, torch.tensor([[1.5, -0.5, 0.6]]))


def test_directions_have_length_one_also_for_tiny_slopes():
    slope = torch.tensor([[3.0, -4.0], [3e-30, -4e-30], [0.0, 0.0]])
    expected = torch.tensor([[0.6, -0.8], [0.6, -0.8], [0.0, 0.0]])
    torch.testing.assert_close(Ball(epsilon=1.0, norm="l2").direction(slope), expected)
    assert torch.equal(Ball(epsilon=1.0).direction(slope), slope.sign())


def test_draws_fill_the_ball_evenly():
    x = torch.zeros(4000, 3, dtype=torch.float64)
    drawn = Ball(epsilon=2.0, norm="l2", valid_range=None).draw(x)
    radii = drawn.norm(dim=1) / 2
    assert radii.max() <= 1 + 1e-12
    for fraction in (0.25, 0.5, 0.9):  # the fraction of volume below radius r is r cubed
        assert (radii**3 < fraction).double().mean().item() == pytest.approx(fraction, abs=0.03)
    flat = Ball(epsilon=2.0, valid_range=None).draw(x)
    assert flat.abs().max() <= 2 and flat.std().item() == pytest.approx(2 / math.sqrt(3), rel=0.03)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_draws_by_index_do_not_depend_on_the_batch(norm):
    ball, x = Ball(epsilon=0.3, norm=norm), torch.rand(5, 4)
    index = torch.tensor([3, 1, 4, 8, 5])
    state = torch.get_rng_state()
    whole = ball.draw(x, index=index, seed=7)
    assert torch.equal(ball.draw(x[2:3], index=index[2:3], seed=7), whole[2:3])
    assert not torch.equal(ball.draw(x, index=index, seed=8), whole)
    assert torch.equal(torch.get_rng_state(), state)
    assert ball.draw(x[:0], index=index[:0]).shape == (0, 4)


def test_settings_are_checked():
    with pytest.raises(InvalidSettingError, match="Expected `epsilon` to be a finite number above"):
        Ball(epsilon=0)
    with pytest.raises(InvalidSettingError, match="Expected `norm` to be 'linf' or 'l2'"):
        Ball(epsilon=1, norm="l1")
    for valid_range in ((1.0, 0.0), 3, (0.0, 1.0, 2.0)):
        with pytest.raises(InvalidSettingError, match="Expected `valid_range` to be a smallest"):
            Ball(epsilon=1, valid_range=valid_range)
