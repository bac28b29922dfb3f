from dataclasses import replace

import pytest

from rightreasons.benchmark import Budget, Method, Variant
from rightreasons.benchmark.plan import Choice, lines, plan
from rightreasons.errors import InvalidSettingError, UnknownNameError


def nothing(config):
    return None


def names(planned):
    return [cell.name for cell in planned.cells]


def test_candidates_come_first_then_the_chosen_one_at_every_seed(make_suite, make_row, find_among):
    suite = make_suite()
    assert names(plan(suite, "small", nothing)) == [
        "wrong · ERM · lr 0.001 · seed 0",
        "wrong · ERM · lr 0.01 · seed 0",
        "wrong · oracle · lr 0.001 · seed 0",
        "wrong · oracle · lr 0.01 · seed 0",
    ]
    assert plan(suite, "small", nothing).num_unknown == 2
    erm = lines(suite, "small")[0].candidates()
    rows = [make_row(cell, select=value) for cell, value in zip(erm, (0.5, 0.7), strict=True)]
    later = plan(suite, "small", find_among(rows))
    assert names(later)[4:] == ["wrong · ERM · lr 0.01 · seed 1"]
    assert later.num_unknown == 1


def test_one_candidate_need_not_be_waited_for(make_suite):
    suite = make_suite(methods=(Method(name="ERM"), Method(name="other", overrides={"lr": 1.0})))
    planned = plan(suite, "small", nothing)
    assert planned.num_unknown == 0
    assert names(planned) == [
        "wrong · ERM · seed 0",
        "wrong · other · seed 0",
        "wrong · ERM · seed 1",
        "wrong · other · seed 1",
    ]


def test_the_same_run_is_planned_once(make_suite):
    twins = (Method(name="one"), Method(name="two"))
    assert len(plan(make_suite(methods=twins), "small", nothing).cells) == 2
    blocks = (Variant(name="a"), Variant(name="b"))
    assert len(plan(make_suite(variants=blocks, methods=twins), "small", nothing).cells) == 2


def test_blocks_come_one_after_the_other(make_suite):
    suite = make_suite(
        variants=(Variant(name="a"), Variant(name="b", overrides={"batch_size": 100})),
        methods=(Method(name="ERM"),),
    )
    assert names(plan(suite, "small", nothing)) == [
        "a · ERM · seed 0",
        "a · ERM · seed 1",
        "b · ERM · seed 0",
        "b · ERM · seed 1",
    ]


@pytest.fixture
def choose(make_suite, make_row, find_among):
    """The choice of a method whose candidates reached these values; None failed."""

    def chosen(*values, select_by="swap_accuracy"):
        grid = [{"lr": 10.0**-number} for number in range(len(values))]
        suite = make_suite(methods=(Method(name="ERM", grid=grid),), select_by=select_by)
        line = lines(suite, "small")[0]
        rows = []
        for cell, value in zip(line.candidates(), values, strict=True):
            row = make_row(cell, failure="" if value is not None else "infinite")
            if value is not None:
                row.results["metrics"]["validation"] = {select_by: value}
            rows.append(row)
        return line.choice(find_among(rows))

    return chosen


def test_the_best_on_validation_data_is_chosen(choose):
    assert choose(0.1, 0.9, 0.5) == Choice(decided=True, candidate=1, value=0.9)


def test_of_equals_the_first_is_chosen(choose):
    assert choose(0.1, 0.9, 0.9).candidate == 1


def test_where_less_is_better_the_least_is_chosen(choose):
    assert choose(0.5, 0.1, 0.9, select_by="calibration_error").candidate == 1


def test_a_failed_candidate_is_never_chosen(choose):
    assert choose(None, 0.1, None) == Choice(decided=True, candidate=1, value=0.1)
    assert choose(None, None) == Choice(decided=True, candidate=None)


def test_where_all_failed_nothing_more_is_planned(make_suite, make_row, find_among):
    suite = make_suite()
    cells = plan(suite, "small", nothing).cells
    find = find_among([make_row(cell, failure="infinite") for cell in cells])
    later = plan(suite, "small", find)
    assert later.cells == cells
    assert later.num_unknown == 0


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


def test_the_budget_decides_on_seeds_and_more(make_suite):
    budgets = {"small": Budget(seeds=(3,)), "paper": Budget(seeds=(3, 4), overrides={"epochs": 9})}
    suite = make_suite(budgets=budgets, methods=(Method(name="ERM"),))
    small, paper = plan(suite, "small", nothing).cells, plan(suite, "paper", nothing).cells
    assert [cell.config.seed for cell in paper] == [3, 4]
    assert paper[0].config == replace(small[0].config, epochs=9)
    with pytest.raises(UnknownNameError, match="Expected a budget"):
        plan(suite, "large", nothing)
