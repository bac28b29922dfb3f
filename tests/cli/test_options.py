import pytest

from rightreasons.cli.options import read_data_settings, read_settings, split_names
from rightreasons.errors import InvalidSettingError


@pytest.mark.parametrize(
    ("text", "value"), [("1e-4", 1e-4), ("30", 30), ("auto", "auto"), ("[1, 2]", [1, 2])]
)
def test_values_are_read_as_people_write_them(text, value):
    assert read_settings([f"weight={text}"]) == {"weight": value}


def test_hyphens_are_underscores():
    assert read_settings(["tune-lr=0.1"]) == {"tune_lr": 0.1}
    assert read_settings(None) == {}


def test_names_with_commas():
    assert split_names("accuracy, rps,") == ["accuracy", "rps"]
    assert split_names(None) is None
    assert split_names("") is None


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("weight", "name=value, but got 'weight'"),
        ("=3", "name=value, but got '=3'"),
        ("weight=[1", "after =, but got 'weight=\\[1'"),
    ],
)
def test_what_is_no_setting(pair, words):
    with pytest.raises(InvalidSettingError, match=words):
        read_settings([pair])


def test_a_polarity_is_said_once():
    assert read_data_settings(["size=8"], "relevant", "label,site") == {
        "size": 8,
        "mask_polarity": "relevant",
        "groups": "label,site",
    }
    with pytest.raises(InvalidSettingError, match="--mask-polarity or --set-data mask_polarity="):
        read_data_settings(["mask_polarity=relevant"], "irrelevant", None)
