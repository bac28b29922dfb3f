import pytest

from rightreasons.errors import InvalidSettingError
from rightreasons.setting import (
    checked_choice,
    checked_factor,
    checked_flag,
    checked_number,
    checked_share,
)


def test_good_values_come_back():
    assert checked_choice("colours", "faint", ("ross", "faint")) == "faint"
    assert checked_flag("oracle", True) is True
    assert checked_number("seed", 0, low=0) == 0
    assert checked_number("patch", 4, low=1, high=4) == 4
    assert checked_factor("width", 1) == 1.0
    assert checked_share("dropout", 0) == 0.0


@pytest.mark.parametrize("value", ["blue", 3, None])
def test_a_choice_names_the_choices(value):
    with pytest.raises(InvalidSettingError, match="Expected `colours` to be 'ross' or 'faint'"):
        checked_choice("colours", value, ("ross", "faint"))


@pytest.mark.parametrize("value", [1, "yes", None])
def test_a_flag_is_a_bool(value):
    with pytest.raises(InvalidSettingError, match="Expected `oracle` to be True or False, but got"):
        checked_flag("oracle", value)


@pytest.mark.parametrize("value", [0, 5, 2.0, "2", True, None])
def test_a_number_is_whole_and_in_range(value):
    words = "Expected `patch` to be a whole number from 1 to 4, but got"
    with pytest.raises(InvalidSettingError, match=words):
        checked_number("patch", value, low=1, high=4)


def test_a_number_without_upper_end():
    with pytest.raises(InvalidSettingError, match="a whole number from 0, but got -1"):
        checked_number("seed", -1, low=0)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1", True])
def test_a_factor_is_finite_and_above_zero(value):
    with pytest.raises(InvalidSettingError, match="`width` to be a finite number above 0, but got"):
        checked_factor("width", value)


@pytest.mark.parametrize("value", [1.0, -0.1, float("nan"), "0", False])
def test_a_share_is_below_one(value):
    with pytest.raises(InvalidSettingError, match="`dropout` to be a number from 0 to below 1"):
        checked_share("dropout", value)


@pytest.mark.parametrize("value", [4, 2.0, "2"])
def test_a_choice_may_be_a_number(value):
    with pytest.raises(InvalidSettingError, match="`depth` to be 2 or 3, but got"):
        checked_choice("depth", value, (2, 3))
