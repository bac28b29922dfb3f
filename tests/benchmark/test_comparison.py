import json

import pytest

from rightreasons.benchmark import Budget, Figure, Figures, Method, Variant, compare, show_suite
from rightreasons.benchmark.plan import lines
from rightreasons.benchmark.store import Store
from rightreasons.errors import RunNotFoundError, UnknownNameError

VALUES = {"group_accuracy/average": 0.5, "group_accuracy/worst": 0.25}
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
def suite(make_suite):
    return make_suite(
        variants=(Variant(name="wrong", title="never the right grey"),),
        figures=Figures("Table 0", {"wrong": {"ERM": {"worst": Figure(0.5)}}}),
        protocol=("Made of nothing.",),
        budgets={
            "small": Budget(seeds=(0, 1), overrides={"epochs": 1}, protocol=("Small indeed.",))
        },
    )


@pytest.fixture
def rows(suite, make_row):
    erm = lines(suite, "small")[0]
    return [make_row(cell, **VALUES) for cell in (*erm.candidates(), erm.cell(0, 1))]


def test_the_table_says_it_all(suite, rows):
    assert compare(suite, rows).to_text() == TEXT


def test_markdown_has_the_same_words(suite, rows):
    text = compare(suite, rows).to_markdown()
    assert text.startswith("### Tiny digits (tiny, Table 0")
    assert "\n\n#### wrong: never the right grey\n\n| method | measure |" in text
    assert "|  | worst | 25.00 ± 0.00 (n=2) | 50.00 | −25.00 |  |" in text
    assert "- Made of nothing.\n" in text


def test_a_program_gets_numbers(suite, rows):
    told = json.loads(json.dumps(compare(suite, rows).to_dict(), allow_nan=False))
    assert told["suite"] == "tiny"
    assert (told["budget"], told["select_by"]) == ("small", "swap_accuracy")
    assert [line["method"] for line in told["lines"]] == ["ERM", "oracle"]
    assert told["lines"][0]["measures"]["worst"]["difference"] == -0.25
    assert "Small indeed." in told["notes"]


def test_where_data_changed_only_the_newest_count(suite, rows, make_row):
    erm = lines(suite, "small")[0]
    newer = make_row(erm.candidates()[0], digest="e" * 64, **VALUES)
    changed = compare(suite, [*rows, newer])
    assert not changed.lines[0].choice.decided  # the second candidate saw the old data
    assert changed.lines[0].rows == ()


def test_rows_of_other_suites_are_left_out(suite, rows, make_suite, make_row):
    other = make_suite(base={"data": "decoy_digits", "batch_size": 1})
    foreign = [make_row(cell) for cell in lines(other, "small")[0].candidates()]
    assert compare(suite, [*foreign, *rows]).to_text() == compare(suite, rows).to_text()


def test_several_versions_are_told(suite, rows, make_row):
    erm = lines(suite, "small")[0]
    mixed = [*rows, make_row(erm.cell(0, 1), version="0.2.0", **VALUES)]
    assert "Runs of several versions: 0.1.0, 0.2.0." in compare(suite, mixed).notes
    assert not any("versions" in note for note in compare(suite, rows).notes)


def test_nothing_chosen_needs_no_words_on_choosing(make_suite):
    suite = make_suite(methods=(Method(name="ERM"),))
    assert not any("chosen" in note for note in compare(suite, []).notes)


def test_a_folder_is_shown_without_running(suite, rows, tmp_path):
    store = Store(tmp_path)
    for row in rows:
        store.add(row)
    assert show_suite(suite, tmp_path).to_text() == compare(suite, rows).to_text()
    with pytest.raises(UnknownNameError, match="Expected a budget"):
        show_suite(suite, tmp_path, budget="huge")
    with pytest.raises(RunNotFoundError, match="no results.jsonl"):
        show_suite("decoy-mnist", tmp_path / "elsewhere")
