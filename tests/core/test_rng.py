import random

import numpy as np
import pytest
import torch

from rightreasons.core.rng import drawn_from, random_stream
from rightreasons.errors import InvalidSettingError


def test_depends_on_seed_and_purpose_only():
    first = random_stream(3, "train", 1).random(8).tolist()
    assert random_stream(3, "train", 1).random(8).tolist() == first
    for other in (random_stream(4, "train", 1), random_stream(3, "train", 2), random_stream(3)):
        assert other.random(8).tolist() != first


def test_a_number_is_not_its_name():
    assert random_stream(0, 1).random() != random_stream(0, "1").random()


def test_a_negative_seed_is_refused():
    with pytest.raises(InvalidSettingError, match="Expected `seed` to be a whole number from 0"):
        random_stream(-1)


def test_draws_depend_on_seed_and_purpose_and_leave_the_others_alone():
    def draws(*where):
        with drawn_from(*where):
            return torch.rand(1).item(), np.random.rand(), random.random()

    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    assert draws(0, 1, 2) == draws(0, 1, 2)
    assert all(a != b for a, b in zip(draws(0, 1, 2), draws(0, 1, 3), strict=True))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]
    assert random.getstate() == before[2]
