import json
import math

import pytest
import torch
from tests.reference import selective as slow
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics import RiskCoverage, selective_accuracy, threshold_for_coverage
from rightreasons.metrics.risk_coverage import (
    SCORES,
    Threshold,
    check_coverage,
    confidence,
    risk_area,
)
from rightreasons.models import Abstaining, SelectiveHeads, normalised

RISK_COVERAGE_SCORES = torch.tensor([3.0, 1.0, 2.0, 2.0, 0.0, 2.0, 1.0, 5.0, 4.0, 6.0])  # with ties
CORRECT = torch.tensor([True, False, False, True, False, True, True, True, False, True])
GROUP = torch.tensor([0, 0, 1, 1, 0, 0, 1, -1, 1, 1])


def rows(**changes):
    return {"score": RISK_COVERAGE_SCORES, "correct": CORRECT, "group": GROUP, **changes}


def test_the_area_equals_its_slow_twin():
    assert risk_area(RISK_COVERAGE_SCORES, CORRECT) == pytest.approx(
        slow.risk_area(RISK_COVERAGE_SCORES.tolist(), CORRECT.tolist())
    )
    values = RiskCoverage().summary(rows())
    assert values[""] == risk_area(RISK_COVERAGE_SCORES, CORRECT)
    best = slow.risk_area([10 * int(right) for right in CORRECT[:6]], CORRECT[:6].tolist())
    first = RiskCoverage().summary({name: part[:6] for name, part in rows().items()})
    assert first["excess"] == pytest.approx(risk_area(RISK_COVERAGE_SCORES[:6], CORRECT[:6]) - best)


@pytest.mark.parametrize("num_kept", [1, 4, 5, 8, 10])
def test_errors_equal_their_slow_twins(num_kept):
    coverage = num_kept / 10
    values = RiskCoverage(coverages=[coverage]).summary(rows())
    scores, correct = RISK_COVERAGE_SCORES.tolist(), CORRECT.tolist()
    errors, samples = slow.error_at(scores, correct, num_kept)
    assert values[f"error/{100 * coverage:g}"] == pytest.approx(errors / samples)
    assert selective_accuracy(RISK_COVERAGE_SCORES, CORRECT, coverage) == pytest.approx(
        1 - errors / samples
    )
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
        assert threshold_for_coverage(RISK_COVERAGE_SCORES, coverage) == expected
    as_near = torch.tensor([1.0, 0.0, 0.0, -1.0])  # a quarter or three
    assert threshold_for_coverage(as_near, 0.5) == 0
    assert threshold_for_coverage(RISK_COVERAGE_SCORES, 1.0) == -math.inf
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


def test_risk_coverage_mistakes():
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
        selective_accuracy(RISK_COVERAGE_SCORES, CORRECT[:3], 0.5)


def test_thresholds_are_taken_from_validation_values():
    metric = RiskCoverage(coverages=[1.0, 0.9])
    metric.calibrate({"threshold/90": 1.5, "error/90": 0.1})
    assert metric.thresholds == (None, 1.5)
    assert metric.summary(rows())["realised/90/coverage"] == pytest.approx(0.7)


def probe_of(model, x):
    return rr.Probe(model, rr.Batch(x=x, y=torch.zeros(len(x), dtype=torch.int64)))


def test_softmax_orders_as_probabilities_do_and_never_rounds_to_one():
    x = torch.randn(20, 3, dtype=torch.float64)
    odds = confidence(probe_of(nn.Identity(), x), "softmax").double()
    chances = x.softmax(dim=1).amax(dim=1)
    torch.testing.assert_close(odds.sigmoid(), chances, rtol=1e-5, atol=1e-6)
    sure = torch.tensor([[60.0, 0.0, 0.0], [50.0, 0.0, 0.0]])
    first, second = confidence(probe_of(nn.Identity(), sure), "softmax")
    assert first > second


def test_logit_is_the_largest():
    x = torch.tensor([[1.0, 3.0], [2.0, 0.0]])
    assert confidence(probe_of(nn.Identity(), x), "logit").tolist() == [3, 2]


def test_abstain_is_what_is_left_beside_abstaining():
    x = torch.randn(5, 1, 2, 2)
    net = Abstaining(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)))
    inside = normalised(net, mean=0.0, deviation=1.0)
    left = 1 - net.model(x).softmax(dim=1)[:, -1]
    for model in (net, inside):
        torch.testing.assert_close(confidence(probe_of(model, x), "abstain").sigmoid(), left)


def test_selection_is_the_head_as_at_test_time():
    heads = SelectiveHeads(body=nn.Linear(3, 4), num_features=4, classes=2, hidden=5)
    x = torch.randn(6, 3)
    result = confidence(probe_of(heads, x), "selection")
    assert heads.training and not any(module._forward_hooks for module in heads.modules())
    heads.eval()
    torch.testing.assert_close(result, heads.selection(heads.body(x))[:, 0])
    assert not result.requires_grad


def test_a_model_without_the_layer_is_refused():
    probe = probe_of(nn.Linear(3, 2), torch.zeros(1, 3))
    for score, words in (("abstain", "Use the model abstaining"), ("selection", "selective_net")):
        with pytest.raises(InvalidSettingError, match=words):
            confidence(probe, score)
    assert set(SCORES) == {"softmax", "logit", "abstain", "selection"}


THRESHOLD_SCORES = torch.arange(100).float()


def test_chosen_on_validation_and_used_on_others():
    threshold = Threshold.chosen(THRESHOLD_SCORES, coverage=0.9, score="logit")
    assert threshold == Threshold(coverage=0.9, value=10.0, score="logit")
    assert threshold.answers(torch.tensor([9.0, 10.0, 11.0])).tolist() == [False, True, True]


@pytest.mark.parametrize("coverage", [0.9, 1.0])
def test_written_and_read(coverage, tmp_path):
    threshold = Threshold.chosen(THRESHOLD_SCORES, coverage=coverage)
    threshold.to_json(tmp_path / "threshold.json")
    assert Threshold.from_json(tmp_path / "threshold.json") == threshold
    kept = json.loads((tmp_path / "threshold.json").read_text())
    assert kept["value"] == (None if coverage == 1 else 10.0)


def test_threshold_mistakes(tmp_path):
    with pytest.raises(InvalidSettingError, match="`coverage` to be a fraction above 0"):
        Threshold(coverage=0.0, value=1.0)
    with pytest.raises(InvalidSettingError, match="`score` to be 'softmax'"):
        Threshold(coverage=0.9, value=1.0, score="margin")
    for value in (math.nan, math.inf, "1"):
        with pytest.raises(InvalidSettingError, match="`value` to be a number, or minus infinity"):
            Threshold(coverage=0.9, value=value)
    (tmp_path / "other.json").write_text("{}")
    for name in ("other.json", "none.json"):
        with pytest.raises(InvalidSettingError, match="Expected a threshold as Threshold.to_json"):
            Threshold.from_json(tmp_path / name)


# MaskTune's Proposition 2: two linear models agree where the masked feature is as in training.


def least_norm(features, y):
    """The solution of least norm of ``features @ weights = y``, with more weights than rows."""
    return features.T @ torch.linalg.solve(features @ features.T, y)


def models_and_relation(seed):
    generator = torch.Generator().manual_seed(seed)
    rest = torch.randn(5, 8, generator=generator, dtype=torch.float64)  # Z: five samples
    masked = torch.randn(5, generator=generator, dtype=torch.float64)  # S
    y = torch.randn(5, generator=generator, dtype=torch.float64)
    first = least_norm(torch.cat([rest, masked[:, None]], dim=1), y)
    second = least_norm(rest, y)
    return first, second, least_norm(rest, masked), (rest, masked, y)


def test_agree_exactly_where_the_relation_of_training_holds():
    for seed in range(5):
        first, second, relation, (rest, masked, y) = models_and_relation(seed)
        torch.testing.assert_close(rest @ second, y)
        torch.testing.assert_close(rest @ first[:-1] + masked * first[-1], y)
        assert first[-1].abs() > 1e-3  # the proposition's condition: the feature is used
        new = torch.randn(100, 8, dtype=torch.float64)
        kept = new @ relation
        torch.testing.assert_close(new @ first[:-1] + kept * first[-1], new @ second)


def test_disagree_by_as_much_as_it_is_broken():
    for seed in range(5):
        first, second, relation, _ = models_and_relation(seed)
        new = torch.randn(100, 8, dtype=torch.float64)
        broken = torch.randn(100, dtype=torch.float64)
        shift = broken - new @ relation
        gap = new @ first[:-1] + broken * first[-1] - new @ second
        torch.testing.assert_close(gap, first[-1] * shift)
        assert (gap.abs() > 1e-9).all()  # the "only if"
