import json
from pathlib import Path

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def timing(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import timing

    return timing


def test_rounds_are_in_turn_and_the_first_do_not_count(timing):
    done, now = [], [0.0]

    def step(name, takes):
        def run():
            done.append(name)
            now[0] += takes * len(done)

        return run

    steps = {"slow": step("slow", 2), "quick": step("quick", 1)}
    seconds = timing.seconds_of(steps, 2, warm_up=1, clock=lambda: now[0])
    assert done == ["slow", "quick"] * 3
    assert seconds == {"slow": [6, 10], "quick": [4, 6]}
    assert timing.ratio(seconds, "slow", "quick") == round((6 / 4 + 10 / 6) / 2, 3)


def test_what_a_step_leaves_behind_is_counted(timing):
    left = []
    peak, kept = timing.count_tensor_bytes(lambda: left.append(torch.zeros(1000)))
    assert kept == 4000 <= peak
    assert timing.count_tensor_bytes(lambda: torch.zeros(1000).sum() and None)[1] == 0


def test_peaks_are_counted_and_not_guessed(timing):
    kept = torch.zeros(1000)

    def step():
        first = torch.zeros(3, 1000)
        del first
        return kept + torch.ones(1000) + np.ones(500_000, dtype=np.uint8)[:1000].sum()

    assert timing.peak_tensor_bytes(step) == 12_000
    assert 500_000 <= timing.peak_array_bytes(step) < 600_000


def test_figures_are_printed_and_written(timing, tmp_path, capsys):
    options = timing.step_parser("Times.\n\nAll.", rounds=7).parse_args([])
    assert (options.rounds, options.out) == (7, None)
    result = {"ratio": 1.5, "machine": timing.machine()}
    timing.publish(result, None)
    assert json.loads(capsys.readouterr().out) == result
    timing.publish(result, tmp_path / "new" / "figures.json")
    assert json.loads((tmp_path / "new" / "figures.json").read_text()) == result
