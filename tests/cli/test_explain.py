import json

import numpy as np
import pytest
from typer.testing import CliRunner

from rightreasons.cli import app
from rightreasons.errors import InvalidSettingError


def rightreasons(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def run(digits_run):
    return digits_run


def test_writes_a_page(run, tmp_path):
    path = tmp_path / "page.html"
    done = rightreasons("explain", run, "--explainer", "lrp", "--samples", "4", "--out", path)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"Wrote {path}.\n"
    assert path.read_text().count("<figure") == 4


def test_json_and_arrays(run, tmp_path):
    path = tmp_path / "found.npz"
    options = ("--explained", "label", "--split", "validation", "--samples", "2", "--json")
    done = rightreasons("explain", run, *options, "--out", path)
    assert json.loads(done.stdout) == {"explanation": str(path)}
    with np.load(path) as found:
        assert found["attribution"].shape == (2, 1, 14, 14)


def test_mistakes(run):
    done = rightreasons("explain", run, "--out", "page.txt")
    assert isinstance(done.exception, InvalidSettingError)
    assert "Expected `out` to end in .html" in str(done.exception)


def test_explanation_metrics_can_be_asked_for_by_name(run):
    done = rightreasons("evaluate", run, "--metrics", "rps,insertion,adv-insertion", "--json")
    found = json.loads(done.stdout)["metrics"]["test"]
    assert 0 < found["rps"] <= 1
    assert 0 < found["adv_insertion"] < 1
    gap = found["insertion"] - found["adv_insertion"]
    assert found["adv_insertion/input_gradient/gap"] == pytest.approx(gap, abs=1e-6)
