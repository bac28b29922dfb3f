from dataclasses import replace

import pytest

from rightreasons.benchmark import Budget, Method, Variant
from rightreasons.benchmark.plan import lines, plan
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


def test_candidates_can_be_compared_at_several_seeds(make_suite, make_row, find_among):
    suite = make_suite(budgets={"small": Budget(seeds=(0, 1, 2), seeds_of_choice=2)})
    erm = lines(suite, "small", methods=["ERM"])[0]
    assert names(plan(suite, "small", nothing, methods=["ERM"])) == [
        "wrong · ERM · lr 0.001 · seed 0",
        "wrong · ERM · lr 0.01 · seed 0",
        "wrong · ERM · lr 0.001 · seed 1",
        "wrong · ERM · lr 0.01 · seed 1",
    ]
    values = zip(erm.candidates(), (0.5, 0.7, 0.8, 0.2), strict=True)
    rows = [make_row(cell, select=value) for cell, value in values]
    assert not erm.choice(find_among(rows[:3])).decided
    choice = erm.choice(find_among(rows))
    assert (choice.candidate, choice.value) == (0, pytest.approx(0.65))  # the better mean
    later = plan(suite, "small", find_among(rows), methods=["ERM"])
    assert names(later)[4:] == ["wrong · ERM · lr 0.001 · seed 2"]


def test_a_candidate_that_failed_at_one_seed_is_not_chosen(make_suite, make_row, find_among):
    suite = make_suite(budgets={"small": Budget(seeds=(0, 1), seeds_of_choice=2)})
    erm = lines(suite, "small", methods=["ERM"])[0]
    first, second, first_again, second_again = erm.candidates()
    rows = [
        make_row(first, select=0.9),
        make_row(second, select=0.1),
        make_row(first_again, failure="infinite"),
        make_row(second_again, select=0.1),
    ]
    assert erm.choice(find_among(rows)).candidate == 1


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


def test_where_all_failed_nothing_more_is_planned(make_suite, make_row, find_among):
    suite = make_suite()
    cells = plan(suite, "small", nothing).cells
    find = find_among([make_row(cell, failure="infinite") for cell in cells])
    later = plan(suite, "small", find)
    assert later.cells == cells
    assert later.num_unknown == 0


def test_the_budget_decides_on_seeds_and_more(make_suite):
    budgets = {"small": Budget(seeds=(3,)), "paper": Budget(seeds=(3, 4), overrides={"epochs": 9})}
    suite = make_suite(budgets=budgets, methods=(Method(name="ERM"),))
    small, paper = plan(suite, "small", nothing).cells, plan(suite, "paper", nothing).cells
    assert [cell.config.seed for cell in paper] == [3, 4]
    assert paper[0].config == replace(small[0].config, epochs=9)
    with pytest.raises(UnknownNameError, match="Expected a budget"):
        plan(suite, "large", nothing)


@pytest.fixture
def borrowing(make_suite):
    return make_suite(
        variants=(
            Variant(name="few", overrides={"batch_size": 100}, chosen_in="all", methods=("ERM",)),
            Variant(name="all"),
        )
    )


@pytest.fixture
def rows_of_erm(borrowing, make_row):
    erm = lines(borrowing, "small", variants=["all"], methods=["ERM"])[0]
    values = zip(erm.candidates(), (0.5, 0.7), strict=True)
    return [make_row(cell, select=value) for cell, value in values]


def test_a_choice_made_elsewhere_is_waited_for(borrowing, rows_of_erm, find_among):
    few, erm, _ = lines(borrowing, "small")
    assert few.source == erm
    assert erm.source is erm
    assert few.candidates() == []
    assert len(few.possible_cells()) == 2
    assert not few.choice(find_among(rows_of_erm[:1])).decided
    assert few.choice(find_among(rows_of_erm)) == erm.choice(find_among(rows_of_erm))
    assert few.choice(find_among(rows_of_erm)).candidate == 1


def test_the_chosen_candidate_runs_at_every_seed_elsewhere(borrowing, rows_of_erm, find_among):
    before = plan(borrowing, "small", nothing)
    assert len(before.cells) == 4
    assert before.num_unknown == 2 + 1 + 1
    after = plan(borrowing, "small", find_among(rows_of_erm))
    assert [name for name in names(after) if name.startswith("few")] == [
        "few · ERM · lr 0.01 · seed 0",
        "few · ERM · lr 0.01 · seed 1",
    ]
    assert len(after.cells) + after.num_unknown == len(before.cells) + before.num_unknown


def test_where_all_failed_elsewhere_nothing_is_planned(borrowing, make_row, find_among):
    cells = plan(borrowing, "small", nothing).cells
    later = plan(borrowing, "small", find_among([make_row(one, failure="x") for one in cells]))
    assert (later.cells, later.num_unknown) == (cells, 0)


def test_a_scaled_grid_goes_by_number(make_suite, make_row, find_among):
    scaled = {"ERM": ({"lr": 0.1}, {"lr": 0.2})}
    suite = make_suite(
        variants=(Variant(name="all"), Variant(name="few", chosen_in="all", grids=scaled)),
    )
    erm, _, few, _ = lines(suite, "small")
    values = zip(erm.candidates(), (0.5, 0.7), strict=True)
    find = find_among([make_row(cell, select=value) for cell, value in values])
    assert few.cell(few.choice(find).candidate, 0).config.lr == 0.2


def test_without_a_choice_nothing_is_waited_for(make_suite):
    suite = make_suite(
        methods=(Method(name="ERM"),),
        variants=(
            Variant(name="all"),
            Variant(name="few", overrides={"batch_size": 100}, chosen_in="all"),
        ),
    )
    part = plan(suite, "small", nothing, variants=["few"])
    assert names(part) == ["few · ERM · seed 0", "few · ERM · seed 1"]
    assert part.num_unknown == 0


def test_a_part_has_what_its_choices_need(borrowing, rows_of_erm, find_among):
    part = plan(borrowing, "small", nothing, variants=["few"])
    assert names(part) == ["all · ERM · lr 0.001 · seed 0", "all · ERM · lr 0.01 · seed 0"]
    assert part.num_unknown == 2
    later = plan(borrowing, "small", find_among(rows_of_erm), variants=["few"])
    assert names(later)[2:] == ["few · ERM · lr 0.01 · seed 0", "few · ERM · lr 0.01 · seed 1"]
    oracle = plan(borrowing, "small", nothing, methods=["oracle"])
    assert {cell.name.split(" · ")[1] for cell in oracle.cells} == {"oracle"}


def test_a_threshold_counts_where_the_choice_is_made(make_suite, make_row, find_among):
    strict = Variant(name="all", select_if=("accuracy", 0.9))
    suite = make_suite(
        methods=(Method(name="ERM", grid=({"lr": 0.1}, {"lr": 0.2})),),
        variants=(strict, Variant(name="few", chosen_in="all")),
    )
    erm, few = lines(suite, "small")
    rows = [make_row(cell, select=0.9 - cell.config.lr) for cell in erm.candidates()]
    for row, accuracy in zip(rows, (0.8, 0.95), strict=True):
        row.results["metrics"]["validation"]["accuracy"] = accuracy
    assert erm.choice(find_among(rows)).candidate == 1
    assert few.choice(find_among(rows)).candidate == 1


def test_unknown_parts_are_told(borrowing):
    with pytest.raises(UnknownNameError, match="Expected a variant, but got 'fwe'"):
        lines(borrowing, "small", variants=["fwe"])
    with pytest.raises(UnknownNameError, match="Expected a method, but got 'EMR'"):
        plan(borrowing, "small", nothing, methods=["EMR"])
    with pytest.raises(InvalidSettingError, match=r"at least one method .*\['few'\].*\['oracle'\]"):
        lines(borrowing, "small", variants=["few"], methods=["oracle"])
    with pytest.raises(InvalidSettingError, match=r"variants \[\] and methods of any name"):
        lines(borrowing, "small", variants=[])
