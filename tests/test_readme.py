"""What the README shows is what happens."""

import csv
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from rightreasons import benchmark
from rightreasons.cli import app

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
README = (ROOT / "README.md").read_text()


def write_images(folder):
    """A folder as the README describes it: bright left or right halves, a marked corner."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    mask = np.zeros((16, 16), dtype=np.uint8)
    mask[:4, :4] = 255
    Image.fromarray(mask).save(folder / "mask.png")
    rows = [["file", "label", "split", "group", "mask"]]
    for number in range(24):
        pixels = rng.integers(0, 60, size=(16, 16, 3), dtype=np.uint8)
        pixels[:, 8 * (number % 2) :][:, :8] += 60
        Image.fromarray(pixels).save(folder / f"{number}.png")
        split = ("train", "val", "test")[number // 8]
        rows.append([f"{number}.png", ["cat", "dog"][number % 2], split, "indoors", "mask.png"])
    with (folder / "data.csv").open("w", newline="") as table:
        csv.writer(table).writerows(rows)


def test_its_commands_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "my-images")
    lines = re.findall(r"^\$ rightreasons (.+)$", README, flags=re.MULTILINE)
    assert len(lines) >= 5
    for line in lines:
        done = CliRunner().invoke(app, shlex.split(line))
        assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"
    assert (tmp_path / "explanation.html").exists()
    assert (tmp_path / "report.html").exists()


def test_it_is_short_and_names_the_command_of_continuous_integration():
    assert len(README.split()) < 900
    assert "make test" in README
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("make test")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CONTENTS.md", "CHANGELOG.md"])
def test_its_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert not missing


def rows_of(method):
    """The cells of the table of results that belong to a method."""
    lines = [line for line in README.splitlines() if re.match(rf"\| {re.escape(method)}[: ]", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_its_results_are_those_the_rows_give():
    table = benchmark.show_suite("decoy-mnist", RESULTS / "decoy-mnist")
    kept = (RESULTS / "decoy-mnist" / "table.md").read_text()
    assert kept.rstrip() == table.to_markdown().rstrip()
    own = table.to_dict()["lines"]
    named = {line["method"] for line in own}
    others = benchmark.show_suite("r4-table1", RESULTS / "r4").to_dict()["lines"]
    lines = own + [line for line in others if line["method"] not in {*named, "IBP-Ex + R3"}]
    for line in lines:
        if line["variant"] == "derm":
            continue
        measured = line["measures"]["worst group"]
        (row,) = rows_of(line["method"])
        faint = line["variant"].endswith("faint")
        assert row[1 if faint else 2] == percent(measured["ours"]), line["method"]
        if faint and measured["paper"] is not None:
            assert row[3] == percent(measured["paper"]), line["method"]


def percent(value):
    return f"{100 * value['mean']:.1f} ± {100 * value['deviation']:.1f}"


def test_its_proofs_are_those_the_certificates_give():
    proved = json.loads((RESULTS / "certificates.json").read_text())["faint"]
    for method, recipe in {"ERM": "erm", "IBP-Ex": "ibp_ex", "Cert-R4": "cert_r4"}.items():
        (row,) = rows_of(method)
        assert row[4] == f"{100 * proved[recipe]['verified']:.1f}"
