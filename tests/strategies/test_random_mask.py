import numpy as np
import pytest
import torch

import rightreasons as rr
from rightreasons.datasets import MaskBits
from rightreasons.errors import InvalidSettingError
from rightreasons.strategies import RandomMask
from rightreasons.strategies.random_mask import window_masks


def is_one_square(mask):
    rows, columns = (mask.any(dim=axis).nonzero().flatten() for axis in (1, 0))
    side = len(rows)
    return side == len(columns) and int(mask.sum()) == side**2 == int(rows[-1] - rows[0] + 1) ** 2


def test_windows_are_squares_anywhere():
    stream = np.random.default_rng(0)
    masks = window_masks(500, size=(6, 9), sides=(2, 3), stream=stream)[:, 0]
    assert all(is_one_square(mask) for mask in masks)
    assert set(masks.sum(dim=(1, 2)).tolist()) == {4, 9}
    assert masks.any(dim=0).all()


def test_a_window_may_fill_the_image():
    masks = window_masks(3, size=(4, 4), sides=(4, 4), stream=np.random.default_rng(0))
    assert masks.all()


@pytest.mark.parametrize(("window", "sides"), [(3, {9}), (None, {4, 9, 16})])
def test_fixed_and_random_windows(make_net, tiny_splits, fit_settings, tmp_path, window, sides):
    strategy = RandomMask(window=window)
    strategy.fit(make_net(), rr.recipes.erm(), tiny_splits, out=tmp_path, **fit_settings)
    bits = MaskBits(np.load(tmp_path / "stage-2-masks.npy"), size=(8, 8))
    assert set(bits.at(torch.arange(64)).sum(dim=(1, 2, 3)).tolist()) == sides


def test_windows_depend_on_the_seed(make_net, tiny_splits, fit_settings, tmp_path):
    for seed in (0, 1):
        settings = {**fit_settings, "seed": seed, "out": tmp_path / str(seed)}
        RandomMask().fit(make_net(), rr.recipes.erm(), tiny_splits, **settings)
    one, other = (np.load(tmp_path / str(seed) / "stage-2-masks.npy") for seed in (0, 1))
    assert (one != other).any()


def test_a_window_that_does_not_fit(make_net, tiny_splits, fit_settings):
    with pytest.raises(InvalidSettingError, match="Expected `window` to fit into images of side 8"):
        RandomMask(window=9).fit(make_net(), rr.recipes.erm(), tiny_splits, **fit_settings)
