import pytest

from rightreasons.errors import InvalidSettingError
from rightreasons.models.setting import check_choice, check_count, check_factor, check_share


def test_good_values_come_back():
    assert check_count("classes", 2, at_least=2) == 2
    assert check_factor("width", 1) == 1.0
    assert check_share("dropout", 0) == 0.0
    assert check_choice("depth", 3, (2, 3)) == 3


@pytest.mark.parametrize("value", [1, 2.0, "2", True, None])
def test_counts(value):
    with pytest.raises(InvalidSettingError, match="`classes` to be a whole number of at least 2"):
        check_count("classes", value, at_least=2)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1", True])
def test_factors(value):
    with pytest.raises(InvalidSettingError, match="`width` to be a finite number above 0, but got"):
        check_factor("width", value)


@pytest.mark.parametrize("value", [1.0, -0.1, float("nan"), "0", False])
def test_shares(value):
    with pytest.raises(InvalidSettingError, match="`dropout` to be a number from 0 to below 1"):
        check_share("dropout", value)


@pytest.mark.parametrize("value", [4, 2.0, "2"])
def test_choices(value):
    with pytest.raises(InvalidSettingError, match=r"`depth` to be one of \(2, 3\), but got"):
        check_choice("depth", value, (2, 3))
