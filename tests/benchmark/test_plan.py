from dataclasses import replace

import pytest

from rightreasons.benchmark import Budget, Method, Variant
from rightreasons.benchmark.plan import Choice, list_lines, plan
from rightreasons.errors import InvalidSettingError, UnknownNameError

METHOD = Method(name="ERM", grid=[{"lr": 0.1}, {"lr": 0.01}])


@pytest.fixture
def choose(make_suite, make_row, find_among):
    """The choice of a method whose candidates reached these values; None failed."""

    def chosen(*values, select_by="swap_accuracy", error=None, **changes):
        grid = [{"lr": 10.0**-number} for number in range(len(values))]
        methods = (Method(name="ERM", grid=grid),)
        suite = make_suite(methods=methods, select_by=select_by, **changes)
        line = list_lines(suite, "small")[0]
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
        line = list_lines(suite, "small")[0]
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
    line = list_lines(make_suite(), "small")[0]
    rows = [
        make_row(cell, select=select, swap_accuracy=1 - select)
        for cell, select in zip(line.candidates(), (0.8, 0.2), strict=True)
    ]
    assert line.choice(find_among(rows)).candidate == 0


def test_a_measure_that_is_not_there_is_told(make_suite, make_row, find_among):
    line = list_lines(make_suite(select_by="group_accuracy/worst"), "small")[0]
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
        line = list_lines(suite, "small")[0]
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
    line = list_lines(make_suite(select_if=("accuracy", 0.5)), "small")[0]
    find = find_among([make_row(cell) for cell in line.candidates()])
    with pytest.raises(InvalidSettingError, match="'accuracy' is not among them: swap_accuracy"):
        line.choice(find)


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
    erm = list_lines(suite, "small")[0].candidates()
    rows = [make_row(cell, select=value) for cell, value in zip(erm, (0.5, 0.7), strict=True)]
    later = plan(suite, "small", find_among(rows))
    assert names(later)[4:] == ["wrong · ERM · lr 0.01 · seed 1"]
    assert later.num_unknown == 1


def test_candidates_can_be_compared_at_several_seeds(make_suite, make_row, find_among):
    suite = make_suite(budgets={"small": Budget(seeds=(0, 1, 2), seeds_of_choice=2)})
    erm = list_lines(suite, "small", methods=["ERM"])[0]
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
    erm = list_lines(suite, "small", methods=["ERM"])[0]
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
    erm = list_lines(borrowing, "small", variants=["all"], methods=["ERM"])[0]
    values = zip(erm.candidates(), (0.5, 0.7), strict=True)
    return [make_row(cell, select=value) for cell, value in values]


def test_a_choice_made_elsewhere_is_waited_for(borrowing, rows_of_erm, find_among):
    few, erm, _ = list_lines(borrowing, "small")
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
    erm, _, few, _ = list_lines(suite, "small")
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
    erm, few = list_lines(suite, "small")
    rows = [make_row(cell, select=0.9 - cell.config.lr) for cell in erm.candidates()]
    for row, accuracy in zip(rows, (0.8, 0.95), strict=True):
        row.results["metrics"]["validation"]["accuracy"] = accuracy
    assert erm.choice(find_among(rows)).candidate == 1
    assert few.choice(find_among(rows)).candidate == 1


def test_unknown_parts_are_told(borrowing):
    with pytest.raises(UnknownNameError, match="Expected a variant, but got 'fwe'"):
        list_lines(borrowing, "small", variants=["fwe"])
    with pytest.raises(UnknownNameError, match="Expected a method, but got 'EMR'"):
        plan(borrowing, "small", nothing, methods=["EMR"])
    with pytest.raises(InvalidSettingError, match=r"at least one method .*\['few'\].*\['oracle'\]"):
        list_lines(borrowing, "small", variants=["few"], methods=["oracle"])
    with pytest.raises(InvalidSettingError, match=r"variants \[\] and methods of any name"):
        list_lines(borrowing, "small", variants=[])


def test_a_star_stands_for_anything(make_suite):
    variants = tuple(Variant(name=name) for name in ("a, one", "b, one", "b, two [x]"))
    suite = make_suite(variants=variants)

    def chosen(**part):
        return [
            (line.variant.name, line.method.name) for line in list_lines(suite, "small", **part)
        ]

    assert chosen(variants=["b*"], methods=["E*"]) == [("b, one", "ERM"), ("b, two [x]", "ERM")]
    assert len(chosen(variants=["*one"])) == 4
    assert chosen(variants=["*[x]"], methods=["oracle"]) == [("b, two [x]", "oracle")]
    with pytest.raises(UnknownNameError, match=r"Expected a variant, but got 'c\*'"):
        chosen(variants=["c*"])


def test_some_seeds_where_nothing_is_chosen(make_suite):
    suite = make_suite(methods=(Method(name="ERM"),))
    planned = plan(suite, "small", lambda config: None, seeds=[1])
    assert [cell.config.seed for cell in planned.cells] == [1] and not planned.num_unknown
    with pytest.raises(InvalidSettingError, match="some of the seeds 0, 1 .* but got 5"):
        plan(suite, "small", lambda config: None, seeds=[5])
    with pytest.raises(InvalidSettingError, match="'tiny' chooses among candidates"):
        plan(make_suite(), "small", lambda config: None, seeds=[1])
