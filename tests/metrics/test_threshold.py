import json
import math

import pytest
import torch

from rightreasons.errors import InvalidSettingError
from rightreasons.metrics.risk_coverage import Threshold

SCORES = torch.arange(100).float()


def test_chosen_on_validation_and_used_on_others():
    threshold = Threshold.chosen(SCORES, coverage=0.9, score="logit")
    assert threshold == Threshold(coverage=0.9, value=10.0, score="logit")
    assert threshold.answers(torch.tensor([9.0, 10.0, 11.0])).tolist() == [False, True, True]


@pytest.mark.parametrize("coverage", [0.9, 1.0])
def test_written_and_read(coverage, tmp_path):
    threshold = Threshold.chosen(SCORES, coverage=coverage)
    threshold.to_json(tmp_path / "threshold.json")
    assert Threshold.from_json(tmp_path / "threshold.json") == threshold
    kept = json.loads((tmp_path / "threshold.json").read_text())
    assert kept["value"] == (None if coverage == 1 else 10.0)


def test_mistakes(tmp_path):
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
