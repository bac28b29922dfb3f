import pytest

from rightreasons.benchmark import Figure, Figures, Variant, compare
from rightreasons.benchmark.comparison import lay_out
from rightreasons.benchmark.plan import lines

VALUES = {"group_accuracy/average": 0.5, "group_accuracy/worst": 0.25}


@pytest.fixture
def suite(make_suite):
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
def rows(suite, make_row):
    erm, _, few, _ = lines(suite, "small")
    cells = (*erm.candidates(), erm.cell(0, 1), few.cell(0, 0), few.cell(0, 1))
    return [make_row(cell, **VALUES) for cell in cells]


def test_a_table_for_each_measure_with_a_column_for_each_variant(suite, rows):
    average, worst, chosen = lay_out(suite, compare(suite, rows).lines)
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
    suite = make_suite(variants=(Variant(name="all"), few), layout="columns")
    assert lay_out(suite, compare(suite, []).lines)[-1].header == ["method", "all", "few"]


def test_a_table_for_each_variant(make_suite):
    suite = make_suite(variants=(Variant(name="a", title="first"), Variant(name="b")))
    first, second = lay_out(suite, compare(suite, []).lines)
    assert (first.heading, second.heading) == ("a: first", "b")
    assert first.header[0] == "method"
    assert [row[0] for row in first.rows] == ["ERM", "", "oracle", ""]


def test_both_end_up_as_text(suite, rows):
    text = compare(suite, rows).to_text()
    assert "\n\nworst, per cent\n\nmethod  100 %         20 %                  0 %\n" in text
    assert (
        "\n\n#### chosen settings\n\n| method | 100 % | 0 % |" in compare(suite, rows).to_markdown()
    )
