import pytest

from rightreasons.datasets.random_stream import random_stream
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
