"""What the README shows is what happens."""

import csv
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
    prose = re.sub(r"<!-- table .*?<!-- end -->", "", README, flags=re.DOTALL)
    assert len(prose.split()) < 900
    assert "make test" in README
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("make test")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CONTENTS.md", "CHANGELOG.md"])
def test_its_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert not missing


def test_the_table_of_decoy_mnist_is_kept_as_the_rows_give_it():
    table = benchmark.show_suite("decoy-mnist", RESULTS / "decoy-mnist")
    kept = (RESULTS / "decoy-mnist" / "table.md").read_text()
    assert kept.rstrip() == table.to_markdown().rstrip()
