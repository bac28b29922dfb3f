import copy

import pytest
import torch

import rightreasons as rr
from rightreasons.objectives import Ramp


def test_grows_to_one_over_its_share_and_stays():
    ramp = Ramp(0.5)
    ramp.prepare(num_passes=8)
    assert [ramp.advanced() for _ in range(6)] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]


def test_without_a_share_it_is_one_at_once():
    assert Ramp(0.0).advanced() == 1.0


def test_measuring_does_not_move_it():
    ramp = Ramp(0.5)
    ramp.prepare(num_passes=4)
    ramp.advanced()
    with torch.no_grad():
        assert ramp.advanced() == ramp.advanced() == 0.5
    ramp.eval()
    assert ramp.advanced() == ramp.advanced() == 0.5


def test_its_place_is_in_the_state():
    ramp = Ramp(0.5)
    ramp.prepare(num_passes=8)
    ramp.advanced()
    other = Ramp(0.5)
    other.load_state_dict(copy.deepcopy(ramp.state_dict()))
    assert other.advanced() == 0.25


def test_says_who_must_tell_how_long_training_is():
    with pytest.raises(rr.errors.InvalidSettingError, match=r"Call objective\.prepare"):
        Ramp(0.5).advanced()
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `ramp` to be a number"):
        Ramp(1.5)
