import pytest

from rightreasons.benchmark.measure import (
    Figure,
    Figures,
    Measure,
    Summary,
    higher_is_better,
    read_figures,
)
from rightreasons.errors import UnknownNameError

TEXT = """
source: "Table 9"
figures:
  faint:
    ERM:
      worst: {mean: 0.5, deviation: 0.1}
      average: {mean: 0.75}
"""


def test_figures_are_read_from_yaml(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(TEXT)
    figures = read_figures(path)
    assert figures.source == "Table 9"
    assert figures.find("faint", "ERM", "worst") == Figure(0.5, 0.1)
    assert figures.find("faint", "ERM", "average") == Figure(0.75, None)


def test_what_the_paper_does_not_have_is_none():
    figures = Figures("Table 9", {"faint": {"ERM": {"worst": Figure(0.5)}}})
    assert figures.find("faint", "ERM", "average") is None
    assert figures.find("faint", "R3", "worst") is None
    assert figures.find("ross", "ERM", "worst") is None


RUNS = [
    {
        "metrics": {
            "test": {
                "group_accuracy/worst": min(a, b),
                "group_accuracy/worst/low": 0.0,
                "group_accuracy/cat": a,
                "group_accuracy/cat/n": 10.0,
                "group_accuracy/dog": b,
                "group_accuracy/dog/n": 10.0,
            }
        }
    }
    for a, b in ((0.2, 0.6), (0.8, 0.4), (0.8, 0.5))
]


def worst(**settings):
    return Measure(key="group_accuracy/worst", name="worst", **settings)


def test_runs_are_averaged_with_the_sample_deviation():
    summary = worst().summary(RUNS)
    values = [0.2, 0.4, 0.5]
    mean = sum(values) / 3
    deviation = (sum((value - mean) ** 2 for value in values) / 2) ** 0.5
    assert summary == Summary(pytest.approx(mean), pytest.approx(deviation), 3)


def test_groups_first_takes_the_worst_of_the_means():
    summary = worst(groups_first=True).summary(RUNS)
    assert summary.mean == pytest.approx((0.6 + 0.4 + 0.5) / 3)  # dogs, though cats had 0.2 once
    assert summary.deviation == pytest.approx(0.1)
    assert summary.mean >= worst().summary(RUNS).mean


def test_groups_first_leaves_out_a_group_that_a_run_lacks():
    lacking = {"metrics": {"test": {**RUNS[0]["metrics"]["test"]}}}
    del lacking["metrics"]["test"]["group_accuracy/dog"]
    summary = worst(groups_first=True).summary([lacking, RUNS[1]])
    assert summary.mean == pytest.approx(0.5)  # cats alone


def test_a_single_run_has_no_deviation():
    assert worst().summary(RUNS[:1]) == Summary(0.2, None, 1)


def test_runs_that_did_not_measure_it_do_not_count():
    other = {"metrics": {"test": {"accuracy": 1.0}}}
    assert worst().summary([other, RUNS[0]]).num_runs == 1
    assert worst().summary([other]) is None
    assert worst(part="elsewhere").summary(RUNS) is None
    assert worst().summary([]) is None


def test_what_is_not_finite_does_not_count():
    overflow = {"metrics": {"test": {"group_accuracy/worst": None}}}
    assert worst().summary([overflow, RUNS[0]]) == Summary(0.2, None, 1)
    assert worst().summary([overflow]) is None


def test_direction_is_the_metrics_own():
    assert higher_is_better("accuracy")
    assert not higher_is_better("calibration_error")
    with pytest.raises(UnknownNameError, match="Expected a metric, but got 'acuracy'"):
        higher_is_better("acuracy")
