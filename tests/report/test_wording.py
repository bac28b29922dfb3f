import pytest

from rightreasons.report.estimate import Estimate
from rightreasons.report.wording import (
    duration,
    format_value,
    interval,
    join_names,
    percent,
    points,
    quantity,
    settings,
    spread,
)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, "50.0"), (1, "100.0"), (-0.0001, "0.0"), (-0.2, "\u221220.0")]
)
def test_percent(share, expected):
    assert percent(share) == f"{expected}\u202f%"
    assert points(share) == f"{expected} points"


def test_quantities_that_are_no_shares_keep_their_unit():
    assert quantity(12.3456, is_share=False) == "12.3"
    assert quantity(0.123456, is_share=True) == percent(0.123)


def test_interval_and_spread():
    estimate = Estimate(0.5, 0.25, 0.75, 0.1, 3)
    assert interval(estimate, is_share=True) == "25.0 to 75.0"
    assert interval(estimate, is_share=False) == "0.25 to 0.75"
    assert spread(estimate, is_share=True) == "±\u202f10.0"
    assert interval(Estimate(0.5), is_share=True) == spread(Estimate(0.5), is_share=True) == ""


def test_durations():
    assert [duration(s) for s in (0.04, 59.9, 60, 3599.6)] == [
        "0.0 s",
        "59.9 s",
        "1 min 0 s",
        "1 h 0 min",
    ]


def test_settings_and_names():
    assert settings({"a": [512, 0.5], "b": None, "c": True}) == "a=(512, 0.5), b=none, c=True"
    assert format_value(1e-4) == "0.0001"
    assert [join_names(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == [
        "a",
        "a and b",
        "a, b and c",
    ]
