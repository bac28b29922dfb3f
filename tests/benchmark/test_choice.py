import pytest

from rightreasons.benchmark import Budget, Method
from rightreasons.benchmark.plan import Choice, lines
from rightreasons.errors import InvalidSettingError

METHOD = Method(name="ERM", grid=[{"lr": 0.1}, {"lr": 0.01}])


@pytest.fixture
def choose(make_suite, make_row, find_among):
    """The choice of a method whose candidates reached these values; None failed."""

    def chosen(*values, select_by="swap_accuracy", error=None, **changes):
        grid = [{"lr": 10.0**-number} for number in range(len(values))]
        methods = (Method(name="ERM", grid=grid),)
        suite = make_suite(methods=methods, select_by=select_by, **changes)
        line = lines(suite, "small")[0]
        rows = []
        for cell, value in zip(line.candidates(), values, strict=True):
            row = make_row(cell, failure="" if value is not None else "infinite")
            if value is not None:
                row.results["metrics"]["validation"] = {select_by: value}
            if value is not None and error is not None:
                ends = {"low": value - 1.959964 * error, "high": value + 1.959964 * error}
                row.results["metrics"]["validation"] |= {
                    f"{select_by}/{end}": at for end, at in ends.items()
                }
            rows.append(row)
        return line.choice(find_among(rows))

    return chosen


def test_the_best_on_validation_data_is_chosen(choose):
    assert choose(0.1, 0.9, 0.5) == Choice(decided=True, candidate=1, value=0.9)


def test_of_equals_the_first_is_chosen(choose):
    assert choose(0.1, 0.9, 0.9).candidate == 1


def test_candidates_within_a_standard_error_are_equals(choose):
    values = (0.5, 0.85, 0.9, 0.89)
    assert choose(*values, error=0.06).candidate == 2
    assert choose(*values, error=0.06, ties_within=1.0).candidate == 1
    assert choose(*values, error=0.04, ties_within=1.0).candidate == 2
    assert choose(*values, error=0.04, ties_within=2.0).value == 0.85
    less = choose(0.5, 0.15, 0.1, select_by="calibration_error", error=0.06, ties_within=1.0)
    assert less.candidate == 1


def test_the_standard_error_of_a_mean_is_smaller(make_suite, make_row, find_among):
    """Two seeds with an error of 0.06 each: 0.042 for their mean."""
    budgets = {"small": Budget(seeds=(0, 1), seeds_of_choice=2)}
    for value, chosen in ((0.85, 1), (0.87, 0)):  # the best is 0.9
        suite = make_suite(budgets=budgets, ties_within=1.0, methods=(METHOD,))
        line = lines(suite, "small")[0]
        rows = []
        for cell, mean in zip(line.candidates(), (value, 0.9) * 2, strict=True):
            row = make_row(cell)
            ends = {"": 0.0, "/low": -1.959964 * 0.06, "/high": 1.959964 * 0.06}
            row.results["metrics"]["validation"] = {
                f"{suite.select_by}{end}": mean + off for end, off in ends.items()
            }
            rows.append(row)
        assert line.choice(find_among(rows)).candidate == chosen


def test_a_measure_without_an_interval_has_no_standard_error(choose):
    with pytest.raises(InvalidSettingError, match="'swap_accuracy/low' is not among them"):
        choose(0.1, 0.9, ties_within=1.0)


def test_where_less_is_better_the_least_is_chosen(choose):
    assert choose(0.5, 0.1, 0.9, select_by="calibration_error").candidate == 1


def test_a_failed_candidate_is_never_chosen(choose):
    assert choose(None, 0.1, None) == Choice(decided=True, candidate=1, value=0.1)
    assert choose(None, None) == Choice(decided=True, candidate=None)


def test_test_data_take_no_part(make_suite, make_row, find_among):
    line = lines(make_suite(), "small")[0]
    rows = [
        make_row(cell, select=select, swap_accuracy=1 - select)
        for cell, select in zip(line.candidates(), (0.8, 0.2), strict=True)
    ]
    assert line.choice(find_among(rows)).candidate == 0


def test_a_measure_that_is_not_there_is_told(make_suite, make_row, find_among):
    line = lines(make_suite(select_by="group_accuracy/worst"), "small")[0]
    rows = [make_row(cell) for cell in line.candidates()]
    with pytest.raises(InvalidSettingError, match="'group_accuracy/worst' is not among them: swap"):
        line.choice(find_among(rows))
    for row in rows:
        del row.results["metrics"]["validation"]
    with pytest.raises(InvalidSettingError, match="there are no validation data"):
        line.choice(find_among(rows))


@pytest.fixture
def choose_if(make_suite, make_row, find_among):
    """The choice by swap accuracy among candidates with these values of another key."""

    def chosen(key, bound, *pairs):
        grid = [{"lr": 10.0**-number} for number in range(len(pairs))]
        suite = make_suite(methods=(Method(name="ERM", grid=grid),), select_if=(key, bound))
        line = lines(suite, "small")[0]
        rows = [
            make_row(cell, select=pair[0])
            for cell, pair in zip(line.candidates(), pairs, strict=True)
        ]
        for row, pair in zip(rows, pairs, strict=True):
            row.results["metrics"]["validation"][key] = pair[1]
        return line.choice(find_among(rows))

    return chosen


def test_only_candidates_that_reach_the_threshold_are_chosen_among(choose_if):
    pairs = ((0.9, 0.92), (0.7, 0.93), (0.8, 0.95))
    assert choose_if("accuracy", 0.93, *pairs) == Choice(decided=True, candidate=2, value=0.8)
    assert choose_if("accuracy", 0.5, *pairs).candidate == 0
    assert choose_if("accuracy", 0.93, *pairs[:2]).candidate == 1  # reaching it is enough


def test_where_less_is_better_candidates_must_stay_below(choose_if):
    pairs = ((0.9, 0.3), (0.7, 0.1), (0.8, 0.2))
    assert choose_if("calibration_error", 0.2, *pairs).candidate == 2


def test_if_none_reaches_it_the_nearest_is_chosen(choose_if):
    pairs = ((0.9, 0.5), (0.1, 0.7), (0.2, 0.7))
    chosen = choose_if("accuracy", 0.93, *pairs)
    assert chosen == Choice(decided=True, candidate=1, value=0.1, fell_short=True)
    assert choose_if("calibration_error", 0.01, *pairs).candidate == 0


def test_what_is_not_finite_is_never_chosen(choose, choose_if):
    assert choose_if("accuracy", 0.5, (None, 0.9), (0.1, 0.9), (0.8, None)).candidate == 1
    assert choose_if("accuracy", 0.5, (None, 0.9), (None, 0.9)) == Choice(decided=True)


def test_a_threshold_that_was_not_measured_is_told(make_suite, make_row, find_among):
    line = lines(make_suite(select_if=("accuracy", 0.5)), "small")[0]
    find = find_among([make_row(cell) for cell in line.candidates()])
    with pytest.raises(InvalidSettingError, match="'accuracy' is not among them: swap_accuracy"):
        line.choice(find)
