"""What the README shows is what happens."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rightreasons.cli import app

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
