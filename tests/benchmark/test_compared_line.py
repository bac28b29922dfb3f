import pytest

from rightreasons.benchmark import Figure, Figures, Measure, Method, Variant
from rightreasons.benchmark.comparison import compare_line
from rightreasons.benchmark.plan import lines

VALUES = {"group_accuracy/average": 0.5, "group_accuracy/worst": 0.25}


@pytest.fixture
def suite(make_suite):
    figures = Figures("Table 0", {"wrong": {"ERM": {"worst": Figure(0.5, 0.125)}}})
    return make_suite(figures=figures)


@pytest.fixture
def line(suite):
    return lines(suite, "small")[0]


def test_what_is_missing_is_shown_as_missing(line, find_among):
    compared = compare_line(line, find_among([]))
    assert compared.table_rows() == [
        ["ERM", "average", "missing", "–", "–", "not yet"],
        ["", "worst", "missing", "50.00 ± 12.50", "–", ""],
    ]
    assert compared.to_dict()["chosen"] is None
    assert compared.to_dict()["measures"]["worst"] == {
        "ours": None,
        "paper": {"mean": 0.5, "deviation": 0.125},
        "difference": None,
    }


def test_candidates_that_were_not_chosen_do_not_count(line, make_row, find_among):
    worse, better = line.candidates()
    other = {name: 0.875 for name in VALUES}
    rows = [make_row(worse, select=0.1, **other), make_row(better, select=0.9, **VALUES)]
    compared = compare_line(line, find_among(rows))
    assert compared.table_rows() == [
        ["ERM", "average", "50.00 (n=1 of 2)", "–", "–", "lr 0.01 (swap_accuracy 0.9000)"],
        ["", "worst", "25.00 (n=1 of 2)", "50.00 ± 12.50", "−25.00", ""],
    ]


def test_all_seeds_are_summed_up(line, make_row, find_among):
    rows = [make_row(line.cell(1, 0), select=0.1)]
    for seed, value in ((0, 0.25), (1, 0.75)):
        rows.append(make_row(line.cell(0, seed), select=0.9, **{"group_accuracy/worst": value}))
    compared = compare_line(line, find_among(rows))
    worst = compared.table_rows()[1]
    assert worst[2:5] == ["50.00 ± 35.36 (n=2)", "50.00 ± 12.50", "+0.00"]
    assert compared.table_rows()[0][2] == "–"  # a measure no run has
    told = compared.to_dict()
    assert told["chosen"] == {"lr": 0.001}
    assert told["chosen_value"] == 0.9
    assert (told["num_candidates"], told["num_seeds"], told["num_failed"]) == (2, 2, 0)
    assert told["measures"]["worst"]["ours"] == {
        "mean": 0.5,
        "deviation": pytest.approx(0.125**0.5),
        "num_runs": 2,
    }


def test_failures_are_told(line, make_row, find_among):
    first, second = line.candidates()
    rows = [
        make_row(first, select=0.9, **VALUES),
        make_row(second, failure="infinite"),
        make_row(line.cell(0, 1), failure="infinite"),
    ]
    compared = compare_line(line, find_among(rows))
    assert compared.table_rows()[0][2] == "50.00 (n=1 of 2, 1 failed)"
    assert compared.to_dict()["num_failed"] == 1
    nothing = compare_line(line, find_among([make_row(c, failure="x") for c in (first, second)]))
    assert nothing.table_rows()[0][-1] == "none: all candidates failed"


def test_one_candidate_is_no_choice(make_suite, make_row, find_among):
    line = lines(make_suite(methods=(Method(name="ERM"),)), "small")[0]
    compared = compare_line(line, find_among([make_row(line.cell(0, 0), **VALUES)]))
    assert compared.table_rows()[0][-1] == "nothing to choose"


def test_numbers_that_are_no_shares_stay_as_they_are(make_suite, make_row, find_among):
    suite = make_suite(
        measures=(Measure(key="calibration_error", name="error"),), methods=(Method(name="ERM"),)
    )
    line = lines(suite, "small")[0]
    compared = compare_line(line, find_among([make_row(line.cell(0, 0), calibration_error=0.0123)]))
    assert compared.table_rows()[0][2] == "0.0123 (n=1 of 2)"


def test_where_settings_come_from_is_told(make_suite, make_row, find_among):
    suite = make_suite(
        variants=(
            Variant(name="all"),
            Variant(name="few", overrides={"batch_size": 100}, chosen_in="all"),
        )
    )
    erm, _, few, _ = lines(suite, "small")
    assert compare_line(few, find_among([])).choice_in_words() == "not yet, in all"
    rows = [make_row(cell) for cell in erm.candidates()]
    compared = compare_line(few, find_among([*rows, make_row(few.cell(0, 1), **VALUES)]))
    assert compared.choice_in_words() == "lr 0.001 (chosen in all)"
    assert compared.table_rows()[0][2] == "50.00 (n=1 of 2)"
    assert compared.to_dict()["chosen_in"] == "all"
    failed = compare_line(few, find_among([make_row(c, failure="x") for c in erm.candidates()]))
    assert failed.choice_in_words() == "none: all candidates failed, in all"


def test_a_threshold_nobody_reached_is_told(make_suite, make_row, find_among):
    line = lines(make_suite(select_if=("swap_accuracy", 0.9)), "small")[0]
    rows = [make_row(cell, select=0.5) for cell in line.candidates()]
    compared = compare_line(line, find_among(rows))
    assert compared.choice_in_words() == (
        "lr 0.001 (swap_accuracy 0.5000; no candidate reached swap_accuracy 0.9)"
    )
    assert compared.to_dict()["fell_short"]


def test_a_short_form_for_columns(line, make_row, find_among):
    average, worst = line.suite.measures
    assert compare_line(line, find_among([])).brief(worst) == "missing [50.00 ± 12.50]"
    rows = [make_row(cell, **{"group_accuracy/worst": 0.25}) for cell in line.candidates()]
    part = compare_line(line, find_among(rows))
    assert part.brief(worst) == "25.00 (n=1 of 2) [50.00 ± 12.50]"
    assert part.brief(average) == "–"
    rows.append(make_row(line.cell(0, 1), **{"group_accuracy/worst": 0.25}))
    assert compare_line(line, find_among(rows)).brief(worst) == "25.00 ± 0.00 [50.00 ± 12.50]"
