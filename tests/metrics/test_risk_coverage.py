import math

import pytest
import torch
from tests.reference import selective as slow
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics import RiskCoverage, selective_accuracy, threshold_for_coverage
from rightreasons.metrics.risk_coverage import check_coverage, risk_area

SCORES = torch.tensor([3.0, 1.0, 2.0, 2.0, 0.0, 2.0, 1.0, 5.0, 4.0, 6.0])  # with ties
CORRECT = torch.tensor([True, False, False, True, False, True, True, True, False, True])
GROUP = torch.tensor([0, 0, 1, 1, 0, 0, 1, -1, 1, 1])


def rows(**changes):
    return {"score": SCORES, "correct": CORRECT, "group": GROUP, **changes}


def test_the_area_equals_its_slow_twin():
    assert risk_area(SCORES, CORRECT) == pytest.approx(
        slow.risk_area(SCORES.tolist(), CORRECT.tolist())
    )
    values = RiskCoverage().summary(rows())
    assert values[""] == risk_area(SCORES, CORRECT)
    best = slow.risk_area([10 * int(right) for right in CORRECT[:6]], CORRECT[:6].tolist())
    first = RiskCoverage().summary({name: part[:6] for name, part in rows().items()})
    assert first["excess"] == pytest.approx(risk_area(SCORES[:6], CORRECT[:6]) - best)


@pytest.mark.parametrize("num_kept", [1, 4, 5, 8, 10])
def test_errors_equal_their_slow_twins(num_kept):
    coverage = num_kept / 10
    values = RiskCoverage(coverages=[coverage]).summary(rows())
    scores, correct = SCORES.tolist(), CORRECT.tolist()
    errors, samples = slow.error_at(scores, correct, num_kept)
    assert values[f"error/{100 * coverage:g}"] == pytest.approx(errors / samples)
    assert selective_accuracy(SCORES, CORRECT, coverage) == pytest.approx(1 - errors / samples)
    each = [slow.error_at(scores, correct, num_kept, GROUP.tolist(), g) for g in (0, 1)]
    worst = max(wrong / kept for wrong, kept in each if kept)
    assert values[f"worst_group/{100 * coverage:g}"] == pytest.approx(worst)


def test_a_perfect_order_has_no_excess_and_a_constant_one_has_its_error():
    values = RiskCoverage().summary(rows(score=CORRECT.float()))
    assert values["excess"] == pytest.approx(0, abs=1e-12)
    constant = RiskCoverage().summary(rows(score=torch.zeros(10)))
    assert constant[""] == pytest.approx(0.4)
    assert constant["error/80"] == pytest.approx(0.4)


def test_a_part_of_a_sample_counts_in_part():
    right = torch.tensor([True, False, False])
    # 1.5 samples: the first, and half of the second
    assert selective_accuracy(torch.tensor([3.0, 2.0, 1.0]), right, 0.5) == pytest.approx(1 / 1.5)


def test_unknown_groups_are_no_group():
    values = RiskCoverage().summary(rows(group=torch.full((10,), -1)))
    assert not [name for name in values if "worst_group" in name]


def test_thresholds_of_other_data():
    metric = RiskCoverage(coverages=[1.0, 0.9, 0.8, 0.5], thresholds=[None, 1.5, 4.5, 9.0])
    values = metric.summary(rows())
    assert values["realised/100/coverage"] == 1
    assert values["realised/100/error"] == pytest.approx(0.4)
    assert values["realised/90/coverage"] == pytest.approx(0.7)
    assert values["realised/90/error"] == pytest.approx(2 / 7)
    assert values["realised/80/coverage"] == pytest.approx(0.2)
    assert values["realised/80/error"] == 0
    assert values["realised/80/worst_group"] == 0  # of the one group that is left
    assert values["realised/50/coverage"] == 0
    assert "realised/50/error" not in values
    assert "threshold/100" not in values
    assert not [name for name in RiskCoverage().summary(rows()) if name.startswith("realised")]


def test_a_threshold_is_a_score_whose_share_is_nearest():
    for coverage, expected in ((0.1, 6.0), (0.4, 3.0), (0.5, 3.0), (0.6, 2.0), (0.95, 0.0)):
        assert threshold_for_coverage(SCORES, coverage) == expected
    as_near = torch.tensor([1.0, 0.0, 0.0, -1.0])  # a quarter or three
    assert threshold_for_coverage(as_near, 0.5) == 0
    assert threshold_for_coverage(SCORES, 1.0) == -math.inf
    distinct = torch.randperm(1000).float()
    for coverage in (0.95, 0.9, 0.85, 0.8, 0.123):
        kept = distinct >= threshold_for_coverage(distinct, coverage)
        assert kept.double().mean() == pytest.approx(coverage)


def test_on_a_model():
    x = torch.tensor([[4.0, 0.0], [0.0, 3.0], [2.0, 0.0], [0.0, 1.0]])
    batch = rr.Batch(x=x, y=torch.tensor([0, 1, 0, 0]), group=torch.tensor([0, 0, 1, 1]))
    values = rr.evaluate(nn.Identity(), batch, [RiskCoverage(coverages=[1.0, 0.75])])
    assert values["risk_coverage"] == pytest.approx(1 / 16)
    assert values["risk_coverage/excess"] == pytest.approx(0)
    assert values["risk_coverage/error/75"] == 0
    assert values["risk_coverage/worst_group/100"] == 0.5
    assert values["risk_coverage/threshold/75"] == 2


def test_mistakes():
    with pytest.raises(InvalidSettingError, match="`score` to be 'softmax' or 'logit'"):
        RiskCoverage(score="entropy")
    with pytest.raises(
        InvalidSettingError, match="`coverages` to be a number or a list of numbers"
    ):
        RiskCoverage(coverages="all")
    assert (
        RiskCoverage(coverages=0.5).coverages == (0.5,) and not RiskCoverage(coverages=[]).coverages
    )
    for coverage in (0, 1.5, True, "all"):
        with pytest.raises(
            InvalidSettingError, match="`coverage` to be a fraction above 0 and up to"
        ):
            check_coverage(coverage)
    with pytest.raises(InvalidSettingError, match="for each of the 5 coverages, but got 2"):
        RiskCoverage(thresholds=[0.1, 0.2])
    with pytest.raises(InvalidBatchError, match="`scores` to hold one number a sample"):
        threshold_for_coverage(torch.tensor([math.nan]), 0.5)
    with pytest.raises(InvalidBatchError, match=r"`correct` of shape \(10,\)"):
        selective_accuracy(SCORES, CORRECT[:3], 0.5)


def test_thresholds_are_taken_from_validation_values():
    metric = RiskCoverage(coverages=[1.0, 0.9])
    metric.calibrate({"threshold/90": 1.5, "error/90": 0.1})
    assert metric.thresholds == (None, 1.5)
    assert metric.summary(rows())["realised/90/coverage"] == pytest.approx(0.7)
