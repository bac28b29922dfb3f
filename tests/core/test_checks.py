import inspect

import numpy as np
import pytest
import torch

from rightreasons.core.checks import (
    Registry,
    check_choice,
    check_flag,
    check_floats,
    check_fraction,
    check_integer,
    check_range,
    positive_float,
)
from rightreasons.errors import InvalidSettingError, UnknownNameError


def test_good_values_come_back():
    assert check_choice("colours", "faint", ("ross", "faint")) == "faint"
    assert check_flag("oracle", True) is True
    assert check_integer("seed", 0, low=0) == 0
    assert check_integer("patch", 4, low=1, high=4) == 4
    assert positive_float("width", 1) == 1.0
    assert check_fraction("dropout", 0, below_one=True) == 0.0


@pytest.mark.parametrize("value", ["blue", 3, None])
def test_a_choice_names_the_choices(value):
    with pytest.raises(InvalidSettingError, match="Expected `colours` to be 'ross' or 'faint'"):
        check_choice("colours", value, ("ross", "faint"))


@pytest.mark.parametrize("value", [1, "yes", None])
def test_a_flag_is_a_bool(value):
    with pytest.raises(InvalidSettingError, match="Expected `oracle` to be True or False, but got"):
        check_flag("oracle", value)


@pytest.mark.parametrize("value", [0, 5, 2.0, "2", True, None])
def test_a_number_is_whole_and_in_range(value):
    words = "Expected `patch` to be a whole number from 1 to 4, but got"
    with pytest.raises(InvalidSettingError, match=words):
        check_integer("patch", value, low=1, high=4)


def test_a_number_without_upper_end():
    with pytest.raises(InvalidSettingError, match="a whole number from 0, but got -1"):
        check_integer("seed", -1, low=0)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1", True])
def test_a_factor_is_finite_and_above_zero(value):
    with pytest.raises(InvalidSettingError, match="`width` to be a finite number above 0, but got"):
        positive_float("width", value)


@pytest.mark.parametrize("value", [0.5, [0.5], (0.5,), np.array([0.5]), torch.tensor([0.5])])
def test_one_number_or_a_list_of_them(value):
    assert check_floats("ratios", value) == [0.5]


@pytest.mark.parametrize("value", [[], "12", ["1"], [True], True, None, [None], torch.tensor(0.5)])
def test_what_is_no_list_of_numbers(value):
    words = "Expected `ratios` to be a number or a list of numbers, 1 or more, but got"
    with pytest.raises(InvalidSettingError, match=words):
        check_floats("ratios", value)


def test_a_list_may_be_empty_where_that_is_said():
    assert check_floats("coverages", [], least=0) == []
    with pytest.raises(InvalidSettingError, match="list of numbers, but got 'all'"):
        check_floats("coverages", "all", least=0)


@pytest.mark.parametrize("value", [0.5, (1, 0), (0, 1, 2), "ab", None])
def test_a_range_has_two_ends(value):
    with pytest.raises(InvalidSettingError, match="`valid_range` to be a smallest and a largest"):
        check_range(value)


@pytest.mark.parametrize("value", [1.0, -0.1, float("nan"), "0", False])
def test_a_share_is_below_one(value):
    with pytest.raises(InvalidSettingError, match="`dropout` to be a number from 0 to below 1"):
        check_fraction("dropout", value, below_one=True)


@pytest.mark.parametrize("value", [4, 2.0, "2"])
def test_a_choice_may_be_a_number(value):
    with pytest.raises(InvalidSettingError, match="`depth` to be 2 or 3, but got"):
        check_choice("depth", value, (2, 3))


def loud(word, *, times=1, mark="!"):
    """Say it loud.

    And then some more.
    """
    return (word.upper() + mark) * times


def must_be_told(*, volume):
    return volume


class Quiet:
    """Say it quietly."""

    def __init__(self, *, tone="low"):
        self.tone = tone


@pytest.fixture
def voices():
    return Registry("voice", {"loud": loud, "must_be_told": must_be_told, "a_quiet": Quiet})


def test_makes_things_by_name(voices):
    assert voices.create("loud", "hello", times=2) == "HELLO!HELLO!"
    assert voices.create("a_quiet").tone == "low"


def test_is_a_mapping_in_alphabetical_order(voices):
    assert list(voices) == ["a_quiet", "loud", "must_be_told"]
    assert len(voices) == 3
    assert voices["loud"] is loud
    assert dict(voices.items())["a_quiet"] is Quiet


def test_a_hyphen_is_an_underscore(voices):
    assert voices["a-quiet"] is Quiet
    assert voices.create("a-quiet", tone="high").tone == "high"
    assert "must-be-told" in voices
    assert "must-be" not in voices
    assert 3 not in voices


def test_tells_settings_and_their_defaults(voices):
    assert voices.settings("loud") == {"times": 1, "mark": "!"}
    assert voices.settings("a-quiet") == {"tone": "low"}
    assert list(voices.settings("must_be_told")) == ["volume"]


def test_describes_members_in_one_line(voices):
    assert voices.describe() == {
        "a_quiet": "Say it quietly.",
        "loud": "Say it loud.",
        "must_be_told": inspect.getdoc(must_be_told) or "",
    }


def test_an_unknown_name_is_answered_with_the_nearest(voices):
    with pytest.raises(UnknownNameError, match="Expected a voice, but got 'lowd'. Did you mean 'l"):
        voices["lowd"]
    with pytest.raises(UnknownNameError, match="Known: a_quiet, loud, must_be_told"):
        voices.create("zzz")
    with pytest.raises(UnknownNameError, match="Did you mean 'a_quiet'"):
        voices.settings("a-quite")


def test_an_unknown_setting_is_answered_with_those_there_are(voices):
    message = "Expected settings of the voice 'loud' among: times, mark; but got pitch, speed"
    with pytest.raises(InvalidSettingError, match=message):
        voices.create("loud", "hello", speed=3, pitch=2)
    silent = Registry("voice", {"silent": lambda: None})
    with pytest.raises(InvalidSettingError, match="among: none; but got speed"):
        silent.create("silent", speed=1)


def test_later_changes_of_the_members_do_not_matter():
    members = {"loud": loud}
    voices = Registry("voice", members)
    members.clear()
    assert list(voices) == ["loud"]
