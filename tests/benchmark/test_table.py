import pytest

from rightreasons.benchmark.comparison import markdown_table, text_table


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
