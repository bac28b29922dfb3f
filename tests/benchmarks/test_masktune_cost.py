import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import masktune_cost

    return masktune_cost


def test_everything_is_measured_in_one_run(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script, "BATCH_SIZE", 20)
    out = tmp_path / "cost.json"
    script.main(["--num-samples", "60", "--rounds", "1", "--out", str(out)])
    result = json.loads(out.read_text())
    assert json.loads(capsys.readouterr().out) == result
    assert set(result["seconds"]) == {
        "evaluation with gradients",
        "evaluation with gradients at the layer",
        "masking",
        "an epoch of ERM",
        "second stage",
    }
    assert all(value > 0 for value in result["ratios"].values())
    assert set(result["ratios"]) >= {
        "masking / evaluation with gradients",
        "second stage / an epoch of ERM",
    }
    assert result["settings"]["num_samples"] == 60
    peaks = result["peak megabytes"]
    assert peaks["masking, masks in memory"] > 0
    assert peaks["the masks"] == round(60 * 98 / 1e6, 2)


def test_what_was_measured_keeps_to_the_bounds():
    figures = json.loads((BENCHMARKS / "results" / "masktune_cost.json").read_text())
    ratios, peaks = figures["ratios"], figures["peak megabytes"]
    assert ratios["masking / evaluation with gradients"] <= 1.5
    assert ratios["second stage / an epoch of ERM"] < 2
    assert peaks["masking, masks in memory, beyond the evaluation"] <= peaks["the masks"]
