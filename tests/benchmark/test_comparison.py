import json

import pytest

from rightreasons.benchmark import (
    Budget,
    Figure,
    Figures,
    Measure,
    Method,
    Variant,
    compare,
    show_suite,
)
from rightreasons.benchmark.comparison import (
    compare_line,
    make_sections,
    markdown_table,
    text_table,
)
from rightreasons.benchmark.plan import list_lines
from rightreasons.benchmark.store import Store
from rightreasons.errors import RunNotFoundError, UnknownNameError


def test_columns_line_up_and_nothing_trails():
    text = text_table(["a", "long header"], [["some words", "1"], ["", "±"]])
    assert text.splitlines() == [
        "a           long header",
        "----------  -----------",
        "some words  1",
        "            ±",
    ]


def test_bars_in_words_do_not_break_markdown():
    assert markdown_table(["a"], [["x|y"]]).splitlines()[-1] == "| x&#124;y |"


def test_rows_must_have_as_many_words_as_the_header():
    with pytest.raises(ValueError, match="argument 2 is longer"):
        text_table(["a"], [["1", "2"]])


VALUES = {"group_accuracy/average": 0.5, "group_accuracy/worst": 0.25}


@pytest.fixture
def suite(make_suite):
    figures = Figures("Table 0", {"wrong": {"ERM": {"worst": Figure(0.5, 0.125)}}})
    return make_suite(figures=figures)


@pytest.fixture
def line(suite):
    return list_lines(suite, "small")[0]


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
    line = list_lines(make_suite(methods=(Method(name="ERM"),)), "small")[0]
    compared = compare_line(line, find_among([make_row(line.cell(0, 0), **VALUES)]))
    assert compared.table_rows()[0][-1] == "nothing to choose"


def test_numbers_that_are_no_shares_stay_as_they_are(make_suite, make_row, find_among):
    suite = make_suite(
        measures=(Measure(key="calibration_error", name="error"),), methods=(Method(name="ERM"),)
    )
    line = list_lines(suite, "small")[0]
    compared = compare_line(line, find_among([make_row(line.cell(0, 0), calibration_error=0.0123)]))
    assert compared.table_rows()[0][2] == "0.0123 (n=1 of 2)"


def test_where_settings_come_from_is_told(make_suite, make_row, find_among):
    suite = make_suite(
        variants=(
            Variant(name="all"),
            Variant(name="few", overrides={"batch_size": 100}, chosen_in="all"),
        )
    )
    erm, _, few, _ = list_lines(suite, "small")
    assert compare_line(few, find_among([])).describe_choice() == "not yet, in all"
    rows = [make_row(cell) for cell in erm.candidates()]
    compared = compare_line(few, find_among([*rows, make_row(few.cell(0, 1), **VALUES)]))
    assert compared.describe_choice() == "lr 0.001 (chosen in all)"
    assert compared.table_rows()[0][2] == "50.00 (n=1 of 2)"
    assert compared.to_dict()["chosen_in"] == "all"
    failed = compare_line(few, find_among([make_row(c, failure="x") for c in erm.candidates()]))
    assert failed.describe_choice() == "none: all candidates failed, in all"


def test_a_threshold_nobody_reached_is_told(make_suite, make_row, find_among):
    line = list_lines(make_suite(select_if=("swap_accuracy", 0.9)), "small")[0]
    rows = [make_row(cell, select=0.5) for cell in line.candidates()]
    compared = compare_line(line, find_among(rows))
    assert compared.describe_choice() == (
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


@pytest.fixture
def columns(make_suite):
    return make_suite(
        variants=(
            Variant(name="100 %", title="all masks"),
            Variant(name="20 %", methods=("ERM",), overrides={"clip": 1.0}, chosen_in="100 %"),
            Variant(name="0 %", methods=("ERM",), overrides={"clip": 2.0}),
        ),
        figures=Figures("Table 0", {"20 %": {"ERM": {"worst": Figure(0.5)}}}),
        layout="columns",
    )


@pytest.fixture
def rows(columns, make_row):
    erm, _, few, _ = list_lines(columns, "small")
    cells = (*erm.candidates(), erm.cell(0, 1), few.cell(0, 0), few.cell(0, 1))
    return [make_row(cell, **VALUES) for cell in cells]


def test_a_table_for_each_measure_with_a_column_for_each_variant(columns, rows):
    average, worst, chosen = make_sections(columns, compare(columns, rows).lines)
    assert average.heading == "average, per cent"
    assert worst.header == ["method", "100 %", "20 %", "0 %"]
    assert worst.rows == [
        ["ERM", "25.00 ± 0.00", "25.00 ± 0.00 [50.00]", "missing"],
        ["oracle", "missing", "", ""],
    ]
    assert chosen.header == ["method", "100 %", "0 %"]
    assert chosen.rows == [
        ["ERM", "lr 0.001 (swap_accuracy 0.5000)", "not yet"],
        ["oracle", "not yet", ""],
    ]


def test_a_scaled_choice_is_shown_where_it_is_scaled(make_suite):
    scaled = {"ERM": ({"lr": 1.0}, {"lr": 2.0})}
    few = Variant(name="few", chosen_in="all", grids=scaled)
    columns = make_suite(variants=(Variant(name="all"), few), layout="columns")
    assert make_sections(columns, compare(columns, []).lines)[-1].header == [
        "method",
        "all",
        "few",
    ]


def test_a_table_for_each_variant(make_suite):
    columns = make_suite(variants=(Variant(name="a", title="first"), Variant(name="b")))
    first, second = make_sections(columns, compare(columns, []).lines)
    assert (first.heading, second.heading) == ("a: first", "b")
    assert first.header[0] == "method"
    assert [row[0] for row in first.rows] == ["ERM", "", "oracle", ""]


def test_both_end_up_as_text(columns, rows):
    text = compare(columns, rows).to_text()
    assert "\n\nworst, per cent\n\nmethod  100 %         20 %                  0 %\n" in text
    assert (
        "\n\n#### chosen settings\n\n| method | 100 % | 0 % |"
        in compare(columns, rows).to_markdown()
    )


def told(suite):
    return "\n".join(compare(suite, []).notes)


def test_borrowed_settings_are_told(make_suite):
    following = [Variant(name=name, chosen_in="all") for name in ("few", "fewer")]
    notes = told(make_suite(variants=(Variant(name="all"), *following)))
    assert "not chosen anew in few, fewer: they are those chosen in all." in notes
    assert "chosen anew" not in told(make_suite())


def test_thresholds_are_told(make_suite):
    suite = make_suite(
        variants=(
            Variant(name="a"),
            Variant(name="b"),
            Variant(name="c", select_if=("calibration_error", 0.1)),
            Variant(name="d", chosen_in="a"),
        ),
        select_if=("accuracy", 0.93),
    )
    assert "In a, b only candidates with accuracy of at least 0.93 on validation" in told(suite)
    assert "In c only candidates with calibration_error of at most 0.1 on" in told(suite)
    assert "only candidates" not in told(make_suite())


def test_ties_are_told(make_suite):
    assert "candidates within one standard error of the best" in told(make_suite(ties_within=1))
    assert "candidates within 2 standard errors of the best" in told(make_suite(ties_within=2.0))
    assert "standard error" not in told(make_suite())


def test_where_candidates_are_compared_is_told(make_suite):
    assert "on validation data at seed 0, among 2 candidates" in told(make_suite())
    both = {"small": Budget(seeds=(0, 1), seeds_of_choice=2)}
    assert "validation data at seeds 0, 1 (mean), among" in told(make_suite(budgets=both))


def test_columns_tell_titles_and_brackets(make_suite):
    parts = {"variants": (Variant(name="a", title="first"),), "figures": Figures("Table 0")}
    notes = compare(make_suite(**parts, layout="columns"), []).notes
    assert notes[0] == "a: first."
    assert "The paper's figures, in square brackets: Table 0." in notes
    notes = compare(make_suite(**parts), []).notes
    assert "a: first." not in notes
    assert "The paper's figures: Table 0." in notes


TEXT = """\
Tiny digits (tiny, Table 0 of nobody2025nothing, budget small)

wrong: never the right grey

method  measure  ours                paper  difference  chosen
------  -------  ------------------  -----  ----------  -------------------------------
ERM     average  50.00 ± 0.00 (n=2)  –      –           lr 0.001 (swap_accuracy 0.5000)
        worst    25.00 ± 0.00 (n=2)  50.00  −25.00
oracle  average  missing             –      –           not yet
        worst    missing             –      –

- Settings are chosen by swap_accuracy on validation data at seed 0, among 2 candidates for every \
method; of equals the first. Test data take no part in it.
- Ours: mean ± sample standard deviation over n runs, one a seed (0, 1).
- Budget small: epochs 1.
- The paper's figures: Table 0.
- Made of nothing.
- Small indeed.
"""


@pytest.fixture
def two_methods(make_suite):
    return make_suite(
        variants=(Variant(name="wrong", title="never the right grey"),),
        figures=Figures("Table 0", {"wrong": {"ERM": {"worst": Figure(0.5)}}}),
        protocol=("Made of nothing.",),
        budgets={
            "small": Budget(seeds=(0, 1), overrides={"epochs": 1}, protocol=("Small indeed.",))
        },
    )


@pytest.fixture
def every_row(two_methods, make_row):
    erm = list_lines(two_methods, "small")[0]
    return [make_row(cell, **VALUES) for cell in (*erm.candidates(), erm.cell(0, 1))]


def test_the_table_says_it_all(two_methods, every_row):
    assert compare(two_methods, every_row).to_text() == TEXT


def test_markdown_has_the_same_words(two_methods, every_row):
    text = compare(two_methods, every_row).to_markdown()
    assert text.startswith("### Tiny digits (tiny, Table 0")
    assert "\n\n#### wrong: never the right grey\n\n| method | measure |" in text
    assert "|  | worst | 25.00 ± 0.00 (n=2) | 50.00 | −25.00 |  |" in text
    assert "- Made of nothing.\n" in text


def test_a_program_gets_numbers(two_methods, every_row):
    told = json.loads(json.dumps(compare(two_methods, every_row).to_dict(), allow_nan=False))
    assert told["suite"] == "tiny"
    assert (told["budget"], told["select_by"]) == ("small", "swap_accuracy")
    assert [line["method"] for line in told["lines"]] == ["ERM", "oracle"]
    assert told["lines"][0]["measures"]["worst"]["difference"] == -0.25
    assert "Small indeed." in told["notes"]


def test_where_data_changed_only_the_newest_count(two_methods, every_row, make_row):
    erm = list_lines(two_methods, "small")[0]
    newer = make_row(erm.candidates()[0], digest="e" * 64, **VALUES)
    changed = compare(two_methods, [*every_row, newer])
    assert not changed.lines[0].choice.decided  # the second candidate saw the old data
    assert changed.lines[0].rows == ()


def test_rows_of_other_suites_are_left_out(two_methods, every_row, make_suite, make_row):
    other = make_suite(base={"data": "decoy_digits", "batch_size": 1})
    foreign = [make_row(cell) for cell in list_lines(other, "small")[0].candidates()]
    assert (
        compare(two_methods, [*foreign, *every_row]).to_text()
        == compare(two_methods, every_row).to_text()
    )


def test_several_versions_are_told(two_methods, every_row, make_row):
    erm = list_lines(two_methods, "small")[0]
    mixed = [*every_row, make_row(erm.cell(0, 1), version="0.2.0", **VALUES)]
    assert "Runs of several versions: 0.1.0, 0.2.0." in compare(two_methods, mixed).notes
    assert not any("versions" in note for note in compare(two_methods, every_row).notes)


def test_nothing_chosen_needs_no_words_on_choosing(make_suite):
    two_methods = make_suite(methods=(Method(name="ERM"),))
    assert not any("chosen" in note for note in compare(two_methods, []).notes)


def test_a_folder_is_shown_without_running(two_methods, every_row, tmp_path):
    store = Store(tmp_path)
    for row in every_row:
        store.add(row)
    assert show_suite(two_methods, tmp_path).to_text() == compare(two_methods, every_row).to_text()
    with pytest.raises(UnknownNameError, match="Expected a budget"):
        show_suite(two_methods, tmp_path, budget="huge")
    with pytest.raises(RunNotFoundError, match="no results.jsonl"):
        show_suite("decoy-mnist", tmp_path / "elsewhere")


def test_a_table_of_differences_to_a_reference(make_suite, make_row):
    suite = make_suite(
        methods=(Method(name="oracle", overrides={"lr": 0.1}), Method(name="ERM")),
        variants=(Variant(name="all"), Variant(name="some", overrides={"lr": 1}, methods=["ERM"])),
        layout="reference",
        references=("oracle",),
    )
    lines = list_lines(suite, "small")
    values = ((0.75, 0.5), (0.25, 0.125), (0.5, 0.5))
    rows = [
        make_row(line.cell(0, seed), **dict(zip(VALUES, pair, strict=True)))
        for line, pair in zip(lines, values, strict=True)
        for seed in (0, 1)
    ]
    first, second = make_sections(suite, compare(suite, rows).lines)
    assert first.header == ["method", "average", "worst", "less oracle"]
    assert [row[0] for row in first.rows] == ["oracle", "ERM"]
    assert [row[-1] for row in first.rows] == ["+0.00", "−50.00"]
    assert first.rows[1][2].startswith("12.50")
    assert second.rows[0][-1] == "–"
    assert make_sections(suite, compare(suite, []).lines)[0].rows[0][-1] == "–"
    with pytest.raises(UnknownNameError, match="Expected a method, but got 'best'"):
        make_suite(references=("best",))
