import re
from xml.etree import ElementTree

import pytest

from rightreasons.report.chart import MOST_POINTS, Bar, Line, bar_chart, line_chart, scale_for
from rightreasons.report.estimate import Estimate


def test_shares_go_from_0_to_100_per_cent():
    scale = scale_for([0.4, 0.6], is_share=True)
    assert [scale.word(tick) for tick in scale.ticks] == ["0\u202f%", "50\u202f%", "100\u202f%"]
    assert scale.place(0.4) == pytest.approx(0.4)


def test_decades_get_a_logarithm():
    scale = scale_for([1e-6, 20.0], is_share=False)
    assert scale.is_logarithmic
    assert (scale.place(1e-6), scale.place(100.0)) == (0.0, 1.0)
    assert scale.place(1e-2) == pytest.approx(0.5)
    assert len(scale.ticks) <= 4
    assert scale.place(0.0) == 0.0


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([1.0, 2.0, 3.0], (0.0, 1.0, 2.0, 3.0)),
        ([0.5], (0.0, 0.2, 0.4, 0.6)),
        ([0.0, 0.0], (0.0, 1.0)),
        ([-1.0, 3.0], (-2.0, 0.0, 2.0, 4.0)),
        ([0.0, 900.0], (0.0, 500.0, 1000.0)),
        ([-3.0, -1.0], (-3.0, -2.0, -1.0, 0.0)),
    ],
)
def test_other_values_get_round_ticks_and_zero(values, ticks):
    scale = scale_for(values, is_share=False)
    assert not scale.is_logarithmic
    assert scale.ticks == pytest.approx(ticks)
    assert all(0 <= scale.place(value) <= 1 for value in values)


def test_values_beyond_the_axis_stay_at_its_edge():
    scale = scale_for([1.0, 2.0], is_share=False)
    assert (scale.place(-5), scale.place(50)) == (0.0, 1.0)


EVIL = '<script>alert("1")</script>'


def parsed(chart):
    return ElementTree.fromstring(str(chart))


def test_bars_are_as_long_as_their_shares_and_have_error_bars():
    chart = parsed(
        bar_chart("ill", [Bar("erm", 0, Estimate(0.5, 0.25, 0.75)), Bar("r3", 1, Estimate(1.0))])
    )
    widths = [float(bar.get("width").rstrip("%")) for bar in chart.iter("rect")]
    assert widths[0] == pytest.approx(widths[1] / 2)
    whiskers = [line for line in chart.iter("line") if line.get("class") == "whisker"]
    ends = [float(whiskers[0].get(end).rstrip("%")) / widths[1] for end in ("x1", "x2")]
    assert ends == pytest.approx([0.25, 0.75])
    assert len(whiskers) == 3
    assert chart.get("aria-label") == "ill: erm 50.0\u202f%, r3 100.0\u202f%"


def test_bars_never_leave_the_chart():
    chart = parsed(
        bar_chart("a", [Bar("r3", 1, Estimate(0.98, 0.9, 1.06)), Bar("b", 2, Estimate(-1.0))])
    )
    ends = [float(line.get("x2").rstrip("%")) for line in chart.iter("line")]
    assert max(ends) <= 78
    assert min(float(bar.get("width").rstrip("%")) for bar in chart.iter("rect")) == 0


def test_lines_run_from_the_first_epoch_to_the_last():
    line = Line("r3", 1, ((1.0, 0.0), (2.0, 0.5), (3.0, 1.0)))
    chart = parsed(line_chart("Accuracy", [line], is_share=True))
    (path,) = chart.iter("path")
    assert path.get("d") == "M0.00 100.00L50.00 50.00L100.00 0.00"
    assert path.get("class") == "stroke-1"
    words = [text.text for text in chart.iter("text")]
    assert words[-2:] == ["epoch 1", "epoch 3"]


def test_one_epoch_is_a_dot():
    chart = parsed(line_chart("Loss", [Line("erm", 0, ((1.0, 2.0),))], is_share=False))
    (path,) = chart.iter("path")
    assert re.fullmatch(r"M(\S+ \S+)L\1", path.get("d"))
    assert [t.text for t in chart.iter("text") if "epoch" in t.text] == ["epoch 1"]


def test_long_lines_are_thinned_and_keep_their_ends():
    points = tuple((float(epoch), float(epoch % 7)) for epoch in range(5001))
    chart = parsed(line_chart("Loss", [Line("erm", 0, points)], is_share=False))
    moves = re.split("[ML]", next(chart.iter("path")).get("d"))[1:]
    assert len(moves) <= MOST_POINTS + 1
    assert (moves[0].split()[0], moves[-1].split()[0]) == ("0.00", "100.00")


def test_names_are_escaped():
    for chart in (
        bar_chart(EVIL, [Bar(EVIL, 0, Estimate(0.5))]),
        line_chart(EVIL, [Line(EVIL, 0, ((1.0, 2.0),))], is_share=False),
    ):
        assert "<script" not in chart
        assert EVIL in parsed(chart).get("aria-label")
