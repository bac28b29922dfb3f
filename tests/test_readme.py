"""What the README shows is what happens."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rightreasons import benchmark
from rightreasons.cli.app import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_its_commands_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = re.findall(r"^\$ rightreasons (.+)$", README, flags=re.MULTILINE)
    assert len(lines) >= 5
    for line in lines:
        done = CliRunner().invoke(app, shlex.split(line))
        assert done.exit_code == 0, f"{line}\n{done.output}"
    assert (tmp_path / "demo" / "report.html").exists()
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CONTENTS.md"])
def test_its_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert not missing


def test_continuous_integration_runs_the_command_it_names():
    assert "make test" in README
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("make test")


def test_its_results_are_those_the_rows_give():
    folder = ROOT / "benchmarks" / "results" / "decoy-mnist"
    comparison = benchmark.show_suite("decoy-mnist", folder)
    assert (folder / "table.md").read_text().rstrip() == comparison.to_markdown().rstrip()
    for line in comparison.to_dict()["lines"]:
        ours = line["measures"]["worst group"]["ours"]
        shown = f"{100 * ours['mean']:.1f} ± {100 * ours['deviation']:.1f}"
        row = next(row for row in README.splitlines() if row.startswith(f"| {line['method']}"))
        assert shown in row, line["variant"]


def test_its_guided_methods_are_those_the_rows_give():
    results = ROOT / "benchmarks" / "results"
    proved = json.loads((results / "certificates.json").read_text())["faint"]
    recipes = {"IBP-Ex": "ibp_ex", "Cert-R4": "cert_r4"}
    for line in benchmark.show_suite("r4-table1", results / "r4").to_dict()["lines"]:
        rows = [row for row in README.splitlines() if row.startswith(f"| {line['method']} ")]
        if line["variant"] == "derm" or line["method"] in ("ERM", "R3", "IBP-Ex + R3", "oracle"):
            continue
        ours = line["measures"]["worst group"]["ours"]
        column = rows[0].split("|")[2 if line["variant"] == "mnist-faint" else 3]
        assert column.strip() == f"{100 * ours['mean']:.1f} ± {100 * ours['deviation']:.1f}"
        if line["method"] in recipes:
            share = proved[recipes[line["method"]]]["verified"]
            assert rows[0].split("|")[5].strip() == f"{100 * share:.1f}"
    erm = proved["erm"]
    assert f"ERM: {100 * erm['verified']:.1f}, with" in README
    assert f"for {100 * erm['refuted']:.1f} %" in README


def test_its_step_times_are_those_that_were_measured():
    measured = json.loads((ROOT / "benchmarks" / "results" / "step_time.json").read_text())
    nets = [values for name, values in measured.items() if name != "machine"]
    steps = [f"{values['r3']:.1f} times" for values in nets]
    by_hand = [f"{values['r3 relative to r3 by hand']:.2f}" for values in nets]
    assert all(step in README for step in steps)
    assert f"{by_hand[0]} and {by_hand[1]} of a double backward" in README
    mlp, prose = nets[0], " ".join(README.split())
    assert f"`ibp_ex` takes {mlp['ibp_ex']:.1f} times, `cert_r4` {mlp['cert_r4']:.1f}" in prose
    assert f"samples {mlp['rand_r4, 10 samples']:.1f}, `adv_r4`" in prose
    assert f"steps {mlp['adv_r4, 10 steps']:.1f};" in prose
