import pytest

from rightreasons.report.estimate import Estimate, clear_best, clearly_above, estimate_measure


def seed(value, half=None):
    ends = {} if half is None else {"a/low": value - half, "a/high": value + half}
    return {"a": value, **ends}


def test_one_seed_keeps_its_own_interval():
    assert estimate_measure([seed(0.5, 0.125)], "a") == Estimate(0.5, 0.375, 0.625, None, 1)


def test_seeds_give_mean_deviation_and_the_cover_of_their_intervals():
    found = estimate_measure([seed(0.4, 0.1), seed(0.6, 0.1)], "a")
    assert found.value == pytest.approx(0.5)
    assert found.deviation == pytest.approx(0.02**0.5)
    assert (found.low, found.high) == pytest.approx((0.3, 0.7))
    assert found.num_seeds == 2


def test_without_own_intervals_two_seeds_have_none_and_three_have_two_deviations():
    assert not estimate_measure([seed(0.4), seed(0.6)], "a").has_interval
    found = estimate_measure([seed(0.4), seed(0.5), seed(0.6)], "a")
    assert (found.low, found.high) == pytest.approx((0.3, 0.7))


def test_seeds_without_the_measure_do_not_count():
    assert estimate_measure([seed(0.4), {}], "a").num_seeds == 1
    assert estimate_measure([{}, {}], "a") is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Estimate(0.8, 0.7, 0.9), Estimate(0.5, 0.4, 0.6), True),
        (Estimate(0.8, 0.6, 0.9), Estimate(0.5, 0.4, 0.6), False),
        (Estimate(0.5, 0.4, 0.6), Estimate(0.8, 0.7, 0.9), False),
        (Estimate(0.8), Estimate(0.5, 0.4, 0.6), False),
        (Estimate(0.8, 0.7, 0.9), Estimate(0.5), False),
    ],
)
def test_clearly_above_needs_intervals_that_do_not_overlap(one, other, expected):
    assert clearly_above(one, other) is expected


@pytest.mark.parametrize(
    ("values", "higher_is_better", "expected"),
    [
        ([(0.4, 0.5), (0.6, 0.7)], True, 1),
        ([(0.4, 0.5), (0.6, 0.7)], False, 0),
        ([(0.4, 0.6), (0.6, 0.7)], True, None),
        ([(0.4, 0.5), (0.6, 0.7), (0.65, 0.8)], True, None),
        ([(0.4, 0.5), (0.6, 0.7), None], True, None),
        ([(0.4, 0.5)], True, None),
        ([], True, None),
    ],
)
def test_best_is_marked_only_if_it_overlaps_with_no_other(values, higher_is_better, expected):
    estimates = [value and Estimate(sum(value) / 2, *value) for value in values]
    assert clear_best(estimates, higher_is_better=higher_is_better) == expected
