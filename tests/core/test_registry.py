import inspect

import pytest

from rightreasons.core.checks import Registry
from rightreasons.errors import InvalidSettingError, UnknownNameError


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
