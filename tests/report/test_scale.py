import pytest

from rightreasons.report.chart import scale_for


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
